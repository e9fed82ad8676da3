import type { Config } from '../config/schema.ts';
import type { Shelf } from '../inventory/shelf.ts';
import { recipeImageProblems } from '../jobs/images.ts';
import type { Recipes } from '../jobs/recipes.ts';
import { canonicalJson, sha256 } from '../names.ts';

/**
 * What workers publish to producers: names, grants, limits, hashes; no template, image or env (design §1). Producers
 * validate against it, so that a request is judged by what a worker will accept.
 */
export interface Offer {
  readonly hash: string;
  readonly profiles: Readonly<Record<string, OfferedProfile>>;
  readonly apps: Readonly<Record<string, OfferedApp>>;
  readonly clusters: Readonly<Record<string, { readonly owners: readonly string[]; readonly acceptLaunches: boolean }>>;
  readonly limits: Config['limits'];
  readonly metadataAllow: readonly string[];
  readonly failedSeconds: number;
}

export interface OfferedProfile {
  readonly owners: readonly string[];
  readonly workspaceMode: string;
  readonly secretRefs: readonly {
    readonly secret: string;
    readonly keys: readonly string[];
    readonly owners: readonly string[];
  }[];
  readonly totalSeconds: number;
  readonly lifetime: Config['profiles'][string]['lifetime'];
  readonly delivery: string;
  readonly protocol: string;
  /** What images.allow has against its images, which are not told themselves; undefined = not known here. */
  readonly imageProblems?: readonly string[];
}

export interface OfferedApp {
  readonly owners: readonly string[];
  readonly title: string;
  readonly allow: readonly string[];
  readonly allowEnv: readonly string[];
  readonly imageProblems?: readonly string[];
}

/** `recipes` are those of this configuration; without them (a producer that has no worker yet) images are the worker's to judge. */
export function offerOf(config: Config, recipes?: Recipes): Offer {
  const judged = (kind: 'profile' | 'app', name: string) =>
    recipes && { imageProblems: recipeImageProblems(recipes.find(kind, name), config.images) };
  const content = {
    profiles: mapValues(
      config.profiles,
      (profile, name): OfferedProfile => ({
        owners: profile.owners,
        workspaceMode: profile.workspace.mode,
        secretRefs: profile.secretRefs,
        totalSeconds: profile.budgets.total,
        lifetime: profile.lifetime,
        delivery: profile.agent.delivery,
        protocol: profile.agent.protocol,
        ...judged('profile', name),
      }),
    ),
    apps: mapValues(
      config.apps,
      (app, name): OfferedApp => ({
        owners: app.owners,
        title: app.title ?? name,
        allow: app.allow,
        allowEnv: app.allowEnv,
        ...judged('app', name),
      }),
    ),
    clusters: mapValues(config.clusters, ({ owners, acceptLaunches }) => ({ owners, acceptLaunches })),
    limits: config.limits,
    metadataAllow: config.metadataPolicy.allow,
    failedSeconds: config.retention.failedSeconds,
  };
  return { hash: sha256(canonicalJson(content)), ...content };
}

const mapValues = <T, U>(object: Readonly<Record<string, T>>, change: (value: T, key: string) => U): Record<string, U> =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value, key)]));

const shelfName = 'offer';

export const publishOffer = (shelf: Shelf, offer: Offer): Promise<void> => shelf.put(shelfName, offer);

export const readOffer = (shelf: Shelf): Promise<Offer | undefined> => shelf.get<Offer>(shelfName);

/** True when a grant list names this owner or everybody. */
export const granted = (owners: readonly string[], owner: string): boolean => owners.includes('*') || owners.includes(owner);
