"""Every mechanism passes the contract."""

from everhold.mechanisms import GuessAndCheck
from everhold.testing import MechanismContract
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.averages import Empirical, SampleSplitting
from everhold_privacy.mechanisms.privacy_budget import CREDITS, PrivacyBudget
from everhold_privacy.mechanisms.thresholdout import Thresholdout


class TestEmpirical(MechanismContract):
    def make(self, **wish):
        return Empirical.tuned(**wish)


class TestSampleSplitting(MechanismContract):
    def make(self, **wish):
        return SampleSplitting.tuned(**wish)


class TestLaplace(MechanismContract):
    def make(self, **wish):
        return LaplaceMechanism.tuned(**wish)


class TestGaussian(MechanismContract):
    def make(self, **wish):
        return GaussianMechanism.tuned(**wish)


class TestThresholdout(MechanismContract):
    def make(self, **wish):
        return Thresholdout.tuned(**wish, overfits=3)


class TestThresholdoutWithSlack(MechanismContract):
    def make(self, **wish):
        return Thresholdout.tuned(**wish, overfits=3, slack=0.3)


class TestGuessAndCheck(MechanismContract):
    def make(self, **wish):
        return GuessAndCheck.tuned(**wish, overfits=3)


class TestGuessAndCheckWithSlack(MechanismContract):
    def make(self, **wish):
        return GuessAndCheck.tuned(**wish, overfits=3, slack=0.3)


class TestPrivacyBudget(MechanismContract):
    price = CREDITS

    def make(self, **wish):
        return PrivacyBudget.tuned(**wish)
