"use strict";
// What pages do beyond links and forms: the colour scheme, uploads that say how far they are, sliders. All of it may be
// absent: then forms are sent and pages loaded as ever.
(() => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("everhold-theme"); } catch { return null; } };
  const theme = () => kept() ?? (dark.matches ? "dark" : "light");
  if (kept()) root.dataset.theme = kept();

  const themed = () => {
    const button = document.getElementById("theme");
    if (!button) return;
    const other = theme() === "dark" ? "light" : "dark";
    button.hidden = false;
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Use ${other} colours`);
    button.onclick = () => {
      root.dataset.theme = other;
      try { localStorage.setItem("everhold-theme", other); } catch { /* then only for this page */ }
      themed();
    };
  };

  // Uploads: sent with progress; the answer takes the place of the page.
  const show = (sent, form, kept) => {
    const page = new DOMParser().parseFromString(sent.responseText, "text/html");
    const main = page.getElementById("main");
    if (!main) { form.dataset.plain = "yes"; form.requestSubmit(); return; }
    if (sent.responseURL && new URL(sent.responseURL).pathname !== new URL(form.action).pathname) {
      location.assign(sent.responseURL);
      return;
    }
    document.title = page.title;
    document.getElementById("main").replaceWith(main);
    if (window.htmx) htmx.process(main);
    begin();
    if (!main.querySelector("[role=alert]")) {
      for (const old of kept) { const now = document.getElementById(old.id); if (now) now.files = old.files; }
    }
    const told = main.querySelector("[role=alert], #answer") ?? main;
    if (!told.hasAttribute("tabindex")) told.tabIndex = -1;
    told.focus();
    told.scrollIntoView({ block: "start" });
  };
  const upload = (event) => {
    const form = event.target;
    if (form.dataset.plain) return;
    event.preventDefault();
    const box = form.querySelector(".uploading");
    const bar = box.querySelector("progress"), said = box.querySelector(".said");
    const buttons = form.querySelectorAll("button");
    const kept = event.submitter?.value === "check" ? [...form.querySelectorAll("input[type=file]")] : [];
    const body = new FormData(form, event.submitter);
    const request = new XMLHttpRequest();
    request.upload.onprogress = (step) => {
      if (!step.lengthComputable) return;
      bar.value = Math.round(100 * step.loaded / step.total);
      said.textContent = bar.value < 100 ? `${bar.value} % sent` : "Sent. It is being checked.";
    };
    const end = (text) => { said.textContent = text; for (const button of buttons) button.disabled = false; };
    request.onload = () => { end(""); show(request, form, kept); };
    request.onerror = () => end("The connection broke before an answer came. Send it again: nothing is received twice.");
    box.hidden = false;
    for (const button of buttons) button.disabled = true;
    request.open("POST", form.action);
    request.setRequestHeader("Accept", "text/html");
    request.send(body);
  };

  // Sliders stand at the logarithm of their number.
  const slide = (range) => {
    const number = document.getElementById(range.dataset.sets);
    range.hidden = false;
    range.oninput = () => {
      const exact = 10 ** (range.value / 100), digits = 10 ** Math.max(Math.floor(range.value / 100) - 1, 0);
      number.value = Math.max(1, Math.round(exact / digits) * digits);
    };
    number.addEventListener("input", () => { if (number.value > 0) range.value = 100 * Math.log10(number.value); });
  };

  const begin = () => {
    for (const form of document.querySelectorAll("form[data-upload]")) form.onsubmit = upload;
    for (const range of document.querySelectorAll("input[data-sets]")) slide(range);
    for (const select of document.querySelectorAll("select[data-goes]")) {
      select.onchange = () => location.assign(`${select.dataset.goes}?kind=${encodeURIComponent(select.value)}`);
    }
    const print = document.getElementById("print");
    if (print) { print.hidden = false; print.onclick = () => window.print(); }
  };

  // A quote needs no file.
  document.addEventListener("htmx:config:request", (event) => {
    const { sourceElement, request } = event.detail.ctx;
    if (!sourceElement.hasAttribute("data-without-files") || !(request.body instanceof FormData)) return;
    for (const [name, value] of [...request.body.entries()]) if (value instanceof File) request.body.delete(name);
  });
  dark.addEventListener("change", themed);
  document.addEventListener("DOMContentLoaded", () => {
    themed();
    begin();
    document.getElementById("answer")?.focus({ preventScroll: false });
  });
})();
