"use strict";
// Light or dark by hand, the data as a file, and everything open on paper. Without a script the page is whole.
(() => {
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const download = document.getElementById("download");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const name = () => { theme.textContent = isDark() ? "Light" : "Dark"; };

  theme.hidden = false;
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  system.addEventListener("change", name);
  name();

  download.hidden = false;
  download.addEventListener("click", () => {
    const text = document.getElementById("data").textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `${document.title.replace(/[^\w.-]+/g, "-")}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  });

  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((one) => { one.open = true; });
  });
  window.addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));
})();
