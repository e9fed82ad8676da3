/** Reading a document of unknown shape without judging it: what is not there, or of another type, reads as empty. */
export type Tree = Readonly<Record<string, unknown>>;

export const isTree = (value: unknown): value is Tree => value !== null && typeof value === 'object' && !Array.isArray(value);
export const tree = (value: unknown): Tree => (isTree(value) ? value : {});
export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
