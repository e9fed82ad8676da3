/** A path of the container and the machine's path that stands for it. */
export interface PathMapping {
  readonly from: string;
  readonly to: string;
}

/** Longest first, so that a mount inside a mount wins. */
export function sortMappings(mappings: readonly PathMapping[]): PathMapping[] {
  return [...mappings].sort((a, b) => b.from.length - a.from.length);
}

const quote = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/**
 * Replaces the container's paths wherever they stand as whole paths in a text: after nothing that could belong to a path
 * and before a slash or the path's end. `mappings` sorted by `sortMappings`.
 */
export function rewritePaths(text: string, mappings: readonly PathMapping[]): string {
  if (mappings.length === 0) return text;
  const targets = new Map(mappings.map(({ from, to }) => [from, to]));
  const pattern = new RegExp(`(?<![\\w.~/-])(${mappings.map(({ from }) => quote(from)).join('|')})(?![\\w.-]*[\\w-])`, 'g');
  return text.replace(pattern, (found) => targets.get(found) ?? found);
}
