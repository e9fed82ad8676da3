// Plain old syntax on purpose: this file must still parse on the Node versions that it turns away.

/** Ends with a sentence and exit code 2 unless this Node can run Windlass. */
export function requireNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  process.stderr.write(
    'Windlass needs Node.js 20.19 or later; this is ' +
      process.versions.node +
      ' (' +
      process.execPath +
      '). Install a newer one (for example `nvm install 24`) and run the command again.\n',
  );
  process.exit(2);
}
