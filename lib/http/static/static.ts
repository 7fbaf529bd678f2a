import { createHash } from 'node:crypto'
import { readFile, stat, readdir } from 'node:fs/promises'
import { extname, join, sep, posix } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { chooseCoding, type Coding, type Headers, minCompressBytes, wantedPart } from '../core/reply.js'
import { contentType, fileReply, isCompressible } from './file.js'
import type { Reply, Request } from '../core/route.js'

export interface StaticOptions {
  /** Base path as `normaliseBase` returns it. It is written into the page's `<base href="/">`. */
  base: string
  /** Public URL of the server. If known, it is written into the page, for texts that users copy. */
  publicUrl?: string | null
  /** Paths below which an unknown address is an error, never the page. */
  except?: readonly string[]
  /**
   * Returns the modules that the page at a path needs besides main.js, for a reader of these languages. The page names
   * them, so that a browser requests all of them at once.
   */
  modulesOf?(path: string, acceptLanguage: string): Promise<readonly string[]>
}

/** Answers GET and HEAD from a directory. Resolves with undefined if the file does not exist. */
export type Static = (request: Pick<Request, 'path' | 'headers' | 'method'>) => Promise<Reply | undefined>

/** Larger files are sent from the disk, uncompressed. */
const maxCachedBytes = 2 * 1024 * 1024
/** Maximum size of all cached files and their compressed forms. Above it, the cache is emptied. */
const maxCacheBytes = 64 * 1024 * 1024

/** The page may run and show only what this server sent, and may send nothing elsewhere. */
const policyHeaders: Headers = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "font-src 'self'",
    "form-action 'self'",
    "base-uri 'self'",
    "frame-ancestors 'none'"
  ].join('; '),
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin'
}
/** For paths below a build's directory, whose content never changes. */
const immutableHeaders: Headers = { 'cache-control': 'public, max-age=31536000, immutable' }
// The content of other paths may change, so each use is checked; the answer is mostly a 304.
const checkedHeaders: Headers = { 'cache-control': 'no-cache' }
/** Scripts and styles follow the policy of their page. A copy of it in each would be a sixth of a first visit. */
const belongsToPage = /^text\/(javascript|css)\b/

/** A cached file. It is valid while the file on disk is unchanged. */
interface Asset {
  mtimeMs: number
  size: number
  type: string
  tag: string
  codings: Partial<Record<Coding, Promise<Buffer>>>
}

/**
 * Serves the files of our own directory (the panel): from memory, compressed once, with strong ETags of their content.
 * If a browser opens a path without file extension, it is a page of the panel and gets `index.html` (§4.1). The page
 * names its modules below `_<hash>/` (static.ts), where browsers cache them forever.
 */
export function createStatic(
  directory: string,
  { base, publicUrl = null, except = [], modulesOf }: StaticOptions
): Static {
  const cache = createCache()
  const builds = createBuilds(directory)

  async function send(name: string, request: Pick<Request, 'headers'>): Promise<Reply | undefined> {
    const path = join(directory, name)
    const found = await stat(path).catch(() => undefined)
    if (found === undefined || !found.isFile()) return undefined
    if (found.size > maxCachedBytes) return fileReply({ file: path, headers: { ...policyHeaders, ...checkedHeaders } })
    const asset = await cache.find({ key: path, version: found, read: () => readFile(path) })
    return await assetReply(asset, cache, { headers: request.headers, cached: cachedFor(asset) })
  }

  async function sendOfBuild(
    [directory = '', ...segments]: string[],
    request: Pick<Request, 'headers'>
  ): Promise<Reply | undefined> {
    const build = await builds.find(directory)
    const name = segments.join('/')
    const content = build?.files.get(name)
    if (build === undefined || content === undefined) return undefined
    const version = { mtimeMs: build.builtAtMs, size: content.length }
    const asset = await cache.find({ key: `${build.directory}/${name}`, version, read: async () => content })
    return await assetReply(asset, cache, { headers: request.headers, cached: immutableHeaders })
  }

  async function sendPage(request: Pick<Request, 'path' | 'headers'>): Promise<Reply | undefined> {
    const build = await builds.current()
    const page = build?.files.get('index.html')
    if (build === null || page === undefined) return await sendPlainPage(request)
    const languages = request.headers['accept-language'] ?? ''
    const modules = (await modulesOf?.(request.path, languages).catch(() => [])) ?? []
    const content = withAddresses(page, { base, publicUrl, build, modules })
    const asset = await cache.find({
      key: `${build.directory} ${modules.join(' ')}`,
      name: 'index.html',
      version: { mtimeMs: build.builtAtMs, size: page.length },
      read: async () => content
    })
    return await assetReply(asset, cache, {
      headers: request.headers,
      cached: { ...checkedHeaders, vary: 'accept-encoding, accept-language' }
    })
  }

  /** Sends the page of a directory without modules. */
  async function sendPlainPage({ headers }: Pick<Request, 'headers'>): Promise<Reply | undefined> {
    const path = join(directory, 'index.html')
    const found = await stat(path).catch(() => undefined)
    if (found === undefined) return undefined
    const asset = await cache.find({
      key: path,
      version: found,
      read: async () => withAddresses(await readFile(path), { base, publicUrl, build: null, modules: [] })
    })
    return await assetReply(asset, cache, { headers, cached: checkedHeaders })
  }

  return async request => {
    const segments = plainSegments(request.path)
    if (segments === undefined) return undefined
    const name = segments.join(sep)
    if (name === '' || name === 'index.html') return await sendPage(request)
    const reply = segments[0]?.startsWith('_') ? await sendOfBuild(segments, request) : await send(name, request)
    if (reply !== undefined) return reply
    const isPage = extname(name) === '' && (request.headers.accept ?? '').includes('text/html')
    const isExcepted = except.some(prefix => request.path === prefix || request.path.startsWith(`${prefix}/`))
    return isPage && !isExcepted ? await sendPage(request) : undefined
  }
}

/**
 * Returns the segments of a path below the directory, or undefined if the path could lead elsewhere or to a hidden
 * file.
 */
function plainSegments(path: string): string[] | undefined {
  const segments = path.slice(1).split('/')
  const isPlain = segments.every(segment => !segment.startsWith('.') && !/[\\/:\0]/.test(segment))
  return isPlain ? segments : undefined
}

interface PageParts {
  base: string
  publicUrl: string | null
  build: Build | null
  modules: readonly string[]
}

/**
 * Writes the addresses into the page. They are relative to the base, whatever page is open. Its own files are those of
 * the build.
 */
function withAddresses(bytes: Buffer, { base, publicUrl, build, modules }: PageParts): Buffer {
  const meta = publicUrl === null ? '' : `<meta name="svc-public-url" content="${publicUrl}">`
  const page = bytes.toString('utf8').replace('<base href="/">', `<base href="${base}/">${meta}`)
  if (build === null) return Buffer.from(page)
  const needed = ['main.js', ...modules].flatMap(build.closure)
  const links = [...new Set(needed)]
    .filter(name => name !== 'main.js' && build.files.has(name))
    .map(name => `<link rel="modulepreload" href="${build.directory}/${name}">\n    `)
    .join('')
  return Buffer.from(
    page
      .replace('href="styles/', `href="${build.directory}/styles/`)
      .replace(
        '<script type="module" src="main.js">',
        `${links}<script type="module" src="${build.directory}/main.js">`
      )
  )
}

async function assetReply(
  asset: Asset,
  cache: Cache,
  { headers, cached }: Pick<Request, 'headers'> & { cached: Headers }
): Promise<Reply> {
  const coding =
    isCompressible(asset.type) && asset.size >= minCompressBytes ? chooseCoding(headers['accept-encoding']) : 'identity'
  const body = await cache.encode(asset, coding)
  const etag = coding === 'identity' ? `"${asset.tag}"` : `"${asset.tag}-${coding}"`
  const all: Headers = {
    ...(belongsToPage.test(asset.type) ? {} : policyHeaders),
    vary: 'accept-encoding',
    ...cached,
    'content-type': asset.type,
    etag,
    'accept-ranges': 'bytes'
  }
  if (coding !== 'identity') all['content-encoding'] = coding
  const isPanel = true
  const wanted = wantedPart(headers, { etag, modifiedMs: asset.mtimeMs, bytes: body.length })
  switch (wanted.outcome) {
    case 'unchanged':
      return { kind: 'empty', status: 304, headers: all, isPanel }
    case 'unsatisfiable':
      return { kind: 'empty', status: 416, headers: { ...all, 'content-range': `bytes */${body.length}` }, isPanel }
    case 'part':
      all['content-range'] = `bytes ${wanted.from}-${wanted.to}/${body.length}`
      return { kind: 'bytes', status: 206, body: body.subarray(wanted.from, wanted.to + 1), headers: all, isPanel }
    case 'all':
      return { kind: 'bytes', status: 200, body, headers: all, isPanel }
  }
}

/** Images are used repeatedly within one page, and a browser would check them each time. */
function cachedFor({ type }: Asset): Headers {
  return type.startsWith('image/') ? { 'cache-control': 'max-age=300' } : checkedHeaders
}

/** Version of a file, as `stat` returns it. */
interface Version {
  mtimeMs: number
  size: number
}

/** The source of an asset's content. */
interface Source {
  key: string
  /** Name whose extension determines the type. Default: the key. */
  name?: string
  version: Version
  read(): Promise<Buffer>
}

type Cache = ReturnType<typeof createCache>

function createCache() {
  const assets = new Map<string, Asset>()
  /** Files that are being read, so that many requests at once read each file only once. */
  const reading = new Map<string, Promise<Asset>>()
  let bytes = 0

  function count(added: number): void {
    bytes += added
    if (bytes <= maxCacheBytes) return
    assets.clear()
    bytes = 0
  }

  async function make({ key, name = key, version, read }: Source): Promise<Asset> {
    const { mtimeMs, size } = version
    const content = await read()
    const tag = createHash('sha256').update(content).digest('base64url').slice(0, 22)
    const asset = { mtimeMs, size, type: contentType(name), tag, codings: { identity: Promise.resolve(content) } }
    assets.set(key, asset)
    count(content.length)
    return asset
  }

  return {
    async find(source: Source): Promise<Asset> {
      const { key, version } = source
      const known = assets.get(key)
      if (known !== undefined && known.mtimeMs === version.mtimeMs && known.size === version.size) return known
      const begun = reading.get(key)
      if (begun !== undefined) return await begun
      const made = make(source)
      reading.set(key, made)
      try {
        return await made
      } finally {
        reading.delete(key)
      }
    },
    async encode(asset: Asset, coding: Coding): Promise<Buffer> {
      const known = asset.codings[coding]
      if (known !== undefined) return await known
      const plain = await (asset.codings.identity as Promise<Buffer>)
      const made = compress[coding](plain)
      asset.codings[coding] = made
      count((await made).length)
      return await made
    }
  }
}

const compress: Record<Coding, (bytes: Buffer) => Promise<Buffer>> = {
  br: bytes => promisify(brotliCompress)(bytes, { params: brotliParams(bytes.length) }),
  gzip: bytes => promisify(gzip)(bytes, { level: 9 }),
  identity: async bytes => bytes
}

/**
 * Returns parameters with a window as large as the file. With the default of 4 MiB, its tables are cleared for each of
 * the small files of the panel: 100 ms of the first visit after a start instead of 15.
 */
function brotliParams(bytes: number): Record<number, number> {
  const windowBits = Math.ceil(Math.log2(bytes + 16))
  return {
    [constants.BROTLI_PARAM_QUALITY]: 9,
    [constants.BROTLI_PARAM_LGWIN]: Math.min(
      Math.max(windowBits, constants.BROTLI_MIN_WINDOW_BITS),
      constants.BROTLI_DEFAULT_WINDOW
    )
  }
}

/*
 * The panel as one build: all of its files, read at one moment, under a path that contains a hash of their content.
 * Browsers cache files below `/_<hash>/` forever, and a page that was loaded before an update still finds its own
 * modules. Each file is what the compiler wrote, byte for byte.
 */

/** One build of the panel. */
interface Build {
  /** Name of its directory: `_` and the hash of all its content. */
  directory: string
  /** Content of the files by path; `/` separates segments. */
  files: ReadonlyMap<string, Buffer>
  /** Returns the modules that one needs, as it imports them statically, including itself. */
  closure(entry: string): string[]
  builtAtMs: number
}

const main = 'main.js'
const hashLength = 16
/** Minimum interval between two checks of the files. */
const lookMs = 1000
/** Number of builds that are kept: the current one, and that of pages which were loaded before an update. */
const keptBuilds = 2
/** Maximum number of files that are open at the same time. */
const filesAbreast = 8
/** Files that browsers never request. */
const notServed = /\.(d\.ts|map|tsbuildinfo)$|(^|\/)\./

/**
 * Creates the builds of a directory. It is read when the first page is requested, and again when a file has changed.
 */
export function createBuilds(directory: string) {
  const kept: Build[] = []
  let stamp = ''
  let lookedAtMs = -Infinity
  let looking: Promise<void> | undefined

  async function look(): Promise<void> {
    const names = (await namesBelow(directory)).sort()
    const stats = await eachOf(names, name => stat(join(directory, name)))
    const found = names.map((name, index) => `${name} ${stats[index]?.size} ${stats[index]?.mtimeMs}`).join('\n')
    if (found !== stamp) {
      const build = await read(directory, names)
      const at = kept.findIndex(each => each.directory === build.directory)
      if (at !== -1) kept.splice(at, 1)
      kept.unshift(build)
      kept.splice(keptBuilds)
      stamp = found
    }
    lookedAtMs = performance.now()
  }

  async function refresh(): Promise<void> {
    if (performance.now() - lookedAtMs < lookMs) return
    // An update replaces one file after the other. Files that cannot be read now are read by the next check.
    looking ??= look()
      .catch(() => {})
      .finally(() => void (looking = undefined))
    await looking
  }

  return {
    /** Returns the build of the current files, or null if there is none (no main.js). */
    async current(): Promise<Build | null> {
      await refresh()
      const [build] = kept
      return build?.files.has(main) ? build : null
    },

    /** Returns the current or the previous build by its directory. */
    async find(wanted: string): Promise<Build | undefined> {
      const known = kept.find(each => each.directory === wanted)
      if (known !== undefined) return known
      await refresh()
      return kept.find(each => each.directory === wanted)
    }
  }
}

async function namesBelow(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries
    .filter(entry => entry.isFile())
    .map(entry => {
      const path = join(entry.parentPath ?? entry.path, entry.name)
        .slice(directory.length)
        .replaceAll('\\', '/')
      return path.replace(/^\//, '')
    })
    .filter(name => !notServed.test(name))
}

/** Processes a few files at a time, because other work may use most of the descriptors. */
async function eachOf<T>(names: readonly string[], work: (name: string) => Promise<T>): Promise<T[]> {
  const results: T[] = []
  for (let at = 0; at < names.length; at += filesAbreast)
    results.push(...(await Promise.all(names.slice(at, at + filesAbreast).map(work))))
  return results
}

async function read(directory: string, names: readonly string[]): Promise<Build> {
  const contents = await eachOf(names, name => readFile(join(directory, name)))
  const hash = createHash('sha256')
  for (const [index, name] of names.entries())
    hash.update(`${name}\0${contents[index]?.length}\0`).update(contents[index] as Buffer)
  const files = new Map(names.map((name, index) => [name, contents[index] as Buffer]))
  const imports = new Map(
    [...files].filter(([name]) => name.endsWith('.js')).map(([name, bytes]) => [name, importsOf(name, bytes)])
  )
  const closure = (entry: string): string[] => {
    const found = new Set([entry])
    for (const name of found) for (const next of imports.get(name) ?? []) found.add(next)
    return [...found]
  }
  return { directory: `_${hash.digest('hex').slice(0, hashLength)}`, files, closure, builtAtMs: Date.now() }
}

/** A static import as the TypeScript compiler writes it: one line, which begins with it. */
const staticImport = /^(?:import|export)\b[^'"]*?\bfrom ['"](\.[^'"]+)['"]|^import ['"](\.[^'"]+)['"]/gm

/** Returns the addresses that a module imports statically. */
function importsOf(name: string, source: Buffer): string[] {
  return [...source.toString('utf8').matchAll(staticImport)].map(([, from, bare]) =>
    posix.join(posix.dirname(name), (from ?? bare) as string)
  )
}
