"""Every mechanism passes the contract."""

from everhold.mechanisms import GuessAndCheck
from everhold.testing import MechanismContract
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.averages import Empirical, SampleSplitting
from everhold_privacy.mechanisms.privacy_budget import CREDITS, PrivacyBudget
from everhold_privacy.mechanisms.thresholdout import Thresholdout


class TestEmpirical(MechanismContract):
    def make(self, **wanted):
        return Empirical.tuned(**wanted)


class TestSampleSplitting(MechanismContract):
    def make(self, **wanted):
        return SampleSplitting.tuned(**wanted)


class TestLaplace(MechanismContract):
    def make(self, **wanted):
        return LaplaceMechanism.tuned(**wanted)


class TestGaussian(MechanismContract):
    def make(self, **wanted):
        return GaussianMechanism.tuned(**wanted)


class TestThresholdout(MechanismContract):
    def make(self, **wanted):
        return Thresholdout.tuned(**wanted, surprises=3)


class TestThresholdoutWithSlack(MechanismContract):
    def make(self, **wanted):
        return Thresholdout.tuned(**wanted, surprises=3, slack=0.3)


class TestGuessAndCheck(MechanismContract):
    def make(self, **wanted):
        return GuessAndCheck.tuned(**wanted, surprises=3)


class TestGuessAndCheckWithSlack(MechanismContract):
    def make(self, **wanted):
        return GuessAndCheck.tuned(**wanted, surprises=3, slack=0.3)


class TestPrivacyBudget(MechanismContract):
    price = CREDITS

    def make(self, **wanted):
        return PrivacyBudget.tuned(**wanted)
