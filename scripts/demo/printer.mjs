/** What the demo says: sentences for a person, or with `json` only the documented objects, one a line, on stdout. */
export function createPrinter({ json, since }) {
  const line = (object) => process.stdout.write(`${JSON.stringify(object)}\n`);
  const text = (words) => process.stdout.write(`${words}\n`);
  return {
    step: (words) => (json ? undefined : text(`• ${words}`)),
    stage: (name, durationMs) =>
      json ? line({ type: 'stage', name, durationMs }) : text(`  ✓ ${name.padEnd(10)} ${String(durationMs).padStart(6)} ms`),
    output: (output, exitCode) => {
      if (json) line({ type: 'output', text: output, exitCode });
      else text(`${output.trimEnd().replace(/^/gm, '  │ ')}\n  exit code ${exitCode}`);
    },
    done: (leftovers) => {
      const durationMs = Math.round(performance.now() - since);
      if (json) line({ type: 'done', leftovers: leftovers.length, durationMs });
      else if (leftovers.length === 0) text(`Done in ${(durationMs / 1000).toFixed(1)} s; nothing is left.`);
      for (const what of leftovers) process.stderr.write(`Windlass: left behind: ${what}\n`);
    },
  };
}
