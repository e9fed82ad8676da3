/** Longest text that is stored or shown of one message from cluster or agent. */
const defaultMax = 4096;

const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const ansi = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g;

/** Half of a surrogate pair, as cutting leaves it: JSON and Redis would carry it as broken text. */
const lonely = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** In order: each masks one way in which a credential gets into an error text. */
const masks: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, '[private key]'],
  [/\b([a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/@"']{1,512}@/gi, '$1***@'],
  [/\b(https?:\/\/[^\s?#"'<>]{1,1024})[?#][^\s"'<>]+/gi, '$1?***'],
  [/\b(authorization|proxy-authorization|cookie|set-cookie)(["']?\s*[:=]\s*)[^\r\n]+/gi, '$1$2***'],
  [/\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, '$1 ***'],
  [
    /\b([\w-]{0,40}(?:password|passwd|secret|token|api[_-]?key|access[_-]?key))(["']?\s*[:=]\s*["']?)[^\s"',;&}]{1,4096}/gi,
    '$1$2***',
  ],
  [/\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)*/g, '***'],
  [/\b(?:sk-|gh[opsur]_|github_pat_|glpat-|xox[abpr]-|AKIA)[A-Za-z0-9_-]{8,}/g, '***'],
];

/**
 * Text of the cluster or the agent, made fit to be stored and shown (I19): no control characters (tabs and newlines
 * stay), no terminal sequences, no credentials, at most `max` characters, the end being kept since it holds the cause.
 */
export function sanitize(text: string, max = defaultMax): string {
  // A bound before the patterns: they are linear, but a hostile gigabyte is still a gigabyte.
  const bounded = text.length > max * 4 ? text.slice(-max * 4) : text;
  let clean = bounded.replace(ansi, '').replace(/\r\n?/g, '\n').replace(controls, '');
  for (const [pattern, replacement] of masks) clean = clean.replace(pattern, replacement);
  clean = clean.trim();
  return (clean.length <= max ? clean : `…${clean.slice(-(max - 1))}`).replace(lonely, '\ufffd');
}
