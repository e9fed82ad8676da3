import { createHash } from 'node:crypto';
import type { KubeConfig } from '@kubernetes/client-node';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';
import type { ClientOptions } from 'ws';
import type { ClusterConfig } from '../config/schema.ts';
import { WindlassError } from '../errors.ts';
import { errorOfTransport } from './api-error.ts';
import { loadKubeConfig } from './kubeconfig.ts';

/** How to reach the API server right now. Taken anew for each call: tokens and certificates rotate. */
export interface Access {
  /** Without a trailing slash; may have a path (proxied clusters). */
  readonly base: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Pooled connections for calls. */
  readonly calls: Dispatcher;
  /** Unlimited connections without a body timeout, for watches and log streams. */
  readonly streams: Dispatcher;
  readonly websocket: ClientOptions;
}

export interface Connection {
  access(): Promise<Access>;
  /** Reads the configuration again and runs credential plugins again; for a 401. */
  reload(): Promise<void>;
  close(): Promise<void>;
}

/** Long enough to spare file reads per call, short enough that a rotated token is picked up before it expires. */
const accessTtlMs = 5000;
const credentialTimeoutMs = 30_000;

interface HttpsOptions {
  headers?: Record<string, string>;
  auth?: string;
  ca?: Buffer;
  cert?: Buffer | string;
  key?: Buffer | string;
  rejectUnauthorized?: boolean;
  servername?: string;
}

interface Pools {
  readonly fingerprint: string;
  readonly calls: Dispatcher;
  readonly streams: Dispatcher;
}

export function createConnection(name: string, config: ClusterConfig, dir: string): Connection {
  let kubeConfig: Promise<KubeConfig> | undefined;
  let current: { readonly until: number; readonly access: Promise<Access> } | undefined;
  let pools: Pools | undefined;
  let reloading: Promise<void> | undefined;
  const retired: Promise<void>[] = [];

  const poolsFor = (loaded: KubeConfig, options: HttpsOptions): Pools => {
    const fingerprint = fingerprintOf(options);
    if (pools?.fingerprint === fingerprint) return pools;
    // Certificates changed: calls under way finish on the old connections, which then close.
    if (pools) retired.push(pools.calls.close(), pools.streams.destroy());
    pools = { fingerprint, ...createPools(loaded, options) };
    return pools;
  };

  const build = async (): Promise<Access> => {
    kubeConfig ??= loadKubeConfig(name, config, dir);
    const loaded = await kubeConfig;
    const options = await credentials(loaded);
    const { calls, streams } = poolsFor(loaded, options);
    const headers: Record<string, string> = { ...options.headers, 'user-agent': 'windlass' };
    const websocket = { ...options, headers } as ClientOptions;
    return {
      base: loaded.getCurrentCluster()?.server.replace(/\/+$/, '') ?? '',
      headers: authorize(headers, options.auth),
      calls,
      streams,
      websocket,
    };
  };

  return {
    access() {
      if (current && performance.now() < current.until) return current.access;
      const fresh = build();
      current = { until: performance.now() + accessTtlMs, access: fresh };
      fresh.catch(() => {
        // The caller gets the error; what failed is not kept, so that the next call tries again from the files.
        if (current?.access === fresh) current = undefined;
        kubeConfig = undefined;
      });
      return fresh;
    },
    reload() {
      // Many calls meet the same expired token: the plugin runs once for all of them.
      reloading ??= (async () => {
        kubeConfig = undefined;
        current = undefined;
        await this.access();
      })().finally(() => {
        reloading = undefined;
      });
      return reloading;
    },
    async close() {
      current = undefined;
      await Promise.all([...retired, pools?.calls.destroy(), pools?.streams.destroy()]);
      pools = undefined;
    },
  };
}

/** Headers and TLS material as the library makes them: tokens, plugins, OIDC. A plugin that hangs must not hang us. */
async function credentials(kubeConfig: KubeConfig): Promise<HttpsOptions> {
  const cluster = kubeConfig.getCurrentCluster();
  // Plain HTTP has no certificate to verify; the library refuses it unless told so.
  if (cluster?.server.startsWith('http:')) (cluster as { skipTLSVerify?: boolean }).skipTLSVerify = true;
  const options: HttpsOptions = { headers: {} };
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the credential plugin did not answer in 30 s')), credentialTimeoutMs);
  });
  try {
    await Promise.race([kubeConfig.applyToHTTPSOptions(options), late]);
  } catch (error) {
    throw errorOfTransport({ verb: 'get', resource: 'credentials' }, error, { sent: false });
  } finally {
    clearTimeout(timer);
  }
  return options;
}

function authorize(headers: Record<string, string>, basic: string | undefined): Record<string, string> {
  return basic === undefined ? headers : { ...headers, authorization: `Basic ${Buffer.from(basic).toString('base64')}` };
}

function fingerprintOf(options: HttpsOptions): string {
  const hash = createHash('sha256');
  for (const part of [options.ca, options.cert, options.key, options.servername, String(options.rejectUnauthorized)]) {
    hash.update(part ?? '').update('\0');
  }
  return hash.digest('hex');
}

function createPools(kubeConfig: KubeConfig, options: HttpsOptions): Omit<Pools, 'fingerprint'> {
  const { ca, cert, key, servername, rejectUnauthorized } = options;
  const tls = {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(servername === undefined ? {} : { servername }),
    ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
  };
  const proxy = kubeConfig.getCurrentCluster()?.proxyUrl;
  const forCalls = { connections: 32, headersTimeout: 0, bodyTimeout: 0 };
  const forStreams = { headersTimeout: 0, bodyTimeout: 0 };
  if (proxy) {
    if (!/^https?:/.test(proxy))
      throw new WindlassError('config_invalid', 'Only http and https proxies are supported in a kubeconfig.');
    return {
      calls: new ProxyAgent({ uri: proxy, requestTls: tls, ...forCalls }),
      streams: new ProxyAgent({ uri: proxy, requestTls: tls, ...forStreams }),
    };
  }
  const connect = { ...tls, timeout: 10_000, keepAlive: true, keepAliveInitialDelay: 30_000 };
  return { calls: new Agent({ connect, ...forCalls }), streams: new Agent({ connect, ...forStreams }) };
}
