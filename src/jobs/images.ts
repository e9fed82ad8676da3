import type { Config } from '../config/schema.ts';
import type { Issue } from '../errors.ts';
import type { Recipe } from './recipes.ts';

/** Which images of a recipe the allow-list refuses; an empty list allows all. */
export function imageIssues(recipe: Recipe, policy: Config['images']): Issue[] {
  return imagesOf(recipe).flatMap(({ path, image }) =>
    imageProblems(image, policy).map((message) => ({ path, message: `${image} ${message}` })),
  );
}

/** The same for whoever asks for the recipe: every kind of problem once, no image named. */
export function recipeImageProblems(recipe: Recipe, policy: Config['images']): string[] {
  return [...new Set(imagesOf(recipe).flatMap(({ image }) => imageProblems(image, policy)))];
}

/** All that its Pods run, the image that delivery init_image copies from included. */
function imagesOf({ template, profile }: Recipe): { readonly path: string; readonly image: string }[] {
  const spec = template.template?.spec;
  const containers = [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])];
  return [
    ...containers.map(({ name, image = '' }) => ({ path: `containers.${name}.image`, image })),
    ...(profile.agent.image === undefined ? [] : [{ path: 'agent.image', image: profile.agent.image }]),
  ];
}

/** What the policy has against one image, without its name: not everybody who asks may learn that. */
function imageProblems(image: string, policy: Config['images']): string[] {
  const problems: string[] = [];
  if (policy.allow.length > 0 && !policy.allow.some((pattern) => matches(pattern, image)))
    problems.push('matches nothing in images.allow');
  if (policy.requireDigest && !/@sha256:[0-9a-f]{64}$/.test(image))
    problems.push('must be given by digest (images.requireDigest)');
  return problems;
}

/** `*` within a path segment, `**` across them. Linear in the text: all that the pattern may be at is tried at a time. */
export function matches(pattern: string, text: string): boolean {
  const parts = pattern.match(/\*\*|./gsu) ?? [];
  const isStar = (at: number) => parts[at] === '*' || parts[at] === '**';
  let places = new Set<number>();
  // A star may stand for nothing: whoever is at it is behind it, too.
  const reach = (to: Set<number>, at: number) => {
    for (let place = at; to.add(place) && isStar(place); ) place += 1;
  };
  reach(places, 0);
  for (const char of text) {
    const next = new Set<number>();
    for (const at of places) {
      if (parts[at] === '**' || (parts[at] === '*' && char !== '/')) reach(next, at);
      else if (parts[at] === char) reach(next, at + 1);
    }
    places = next;
  }
  return places.has(parts.length);
}
