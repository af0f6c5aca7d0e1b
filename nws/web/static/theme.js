/* Light or dark: the system's preference, or the user's choice. A classic script in <head>, so that the first
   paint has the right colours. */
(function () {
  "use strict";
  const KEY = "nws-theme";
  const CHOICES = ["auto", "light", "dark"];
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  function kept() {
    try {
      const value = window.localStorage.getItem(KEY);
      return CHOICES.includes(value) ? value : "auto";
    } catch {
      return "auto"; // storage is disabled: the system decides
    }
  }

  let choice = kept();

  function apply() {
    const dark = choice === "dark" || (choice === "auto" && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    document.dispatchEvent(new CustomEvent("themechange"));
  }

  window.nwsTheme = {
    choice: () => choice,
    next() {
      choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
      try {
        window.localStorage.setItem(KEY, choice);
      } catch {
        // chosen for this page only
      }
      apply();
      return choice;
    },
  };
  system.addEventListener("change", apply);
  apply();
})();
