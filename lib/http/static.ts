import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { extname, join, sep } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { createBuilds } from './build.js'
import type { Build } from './build.js'
import { chooseCoding, minCompressBytes } from './coding.js'
import type { Coding } from './coding.js'
import { wantedPart } from './conditional.js'
import { contentType, isCompressible } from './content-types.js'
import { fileReply } from './file.js'
import type { Headers } from './reply.js'
import type { Reply, Request } from './route.js'

export interface StaticOptions {
  /** As `normaliseBase` gives it; written into the page's `<base href="/">`. */
  base: string
  /** Under which address people reach the server, for what the page gives to copy; written into it where it is known. */
  publicUrl?: string | null
  /** Paths under which an unknown address is an error, never the page. */
  except?: readonly string[]
  /**
   * The modules that the page at a path needs beside main.js, for a reader of these languages: they are named in the page, so
   * that a browser asks for all of them at once.
   */
  modulesOf?(path: string, acceptLanguage: string): Promise<readonly string[]>
}

/** Answers GET and HEAD from a directory; undefined when nothing is there. */
export type Static = (request: Pick<Request, 'path' | 'headers' | 'method'>) => Promise<Reply | undefined>

/** Larger files are sent from the disk, uncompressed. */
const maxCachedBytes = 2 * 1024 * 1024
/** All files and their compressed forms together; past it the cache begins anew. */
const maxCacheBytes = 64 * 1024 * 1024

/** Nothing but what this server itself sent runs or is shown, and nothing leaves for elsewhere. */
const policyHeaders: Headers = {
  'content-security-policy': [
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data: blob:", "connect-src 'self'",
    "font-src 'self'", "form-action 'self'", "base-uri 'self'", "frame-ancestors 'none'"
  ].join('; '),
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin'
}
/** Below the name of a build: the content never changes. */
const immutableHeaders: Headers = { 'cache-control': 'public, max-age=31536000, immutable' }
// Other names do not change with content, so every use is checked; the answer is mostly a 304.
const checkedHeaders: Headers = { 'cache-control': 'no-cache' }
/** What is no document obeys the policy of the page that uses it. Its own copy would be a sixth of a first visit. */
const belongsToPage = /^text\/(javascript|css)\b/

/** A file in memory, as long as the one on disk is the same. */
interface Asset {
  mtimeMs: number
  size: number
  type: string
  tag: string
  codings: Partial<Record<Coding, Promise<Buffer>>>
}

/**
 * The files of a directory that is ours (the panel): from memory, compressed once, with strong ETags of their content.
 * An address without file extension that a browser opens is one of the page's own, and gets `index.html` (§4.1). The page
 * names its modules below `_<hash>/` (build.ts), where browsers keep them for ever.
 */
export function createStatic(directory: string, { base, publicUrl = null, except = [], modulesOf }: StaticOptions): Static {
  const cache = createCache()
  const builds = createBuilds(directory)

  async function send(name: string, request: Pick<Request, 'headers'>): Promise<Reply | undefined> {
    const path = join(directory, name)
    const found = await stat(path).catch(() => undefined)
    if (found === undefined || !found.isFile()) return undefined
    if (found.size > maxCachedBytes) return fileReply({ file: path, headers: { ...policyHeaders, ...checkedHeaders } })
    const asset = await cache.find(path, found, () => readFile(path))
    return await assetReply(asset, cache, { headers: request.headers, cached: cachedFor(asset) })
  }

  async function sendOfBuild([directory = '', ...segments]: string[], request: Pick<Request, 'headers'>): Promise<Reply | undefined> {
    const build = await builds.find(directory)
    const name = segments.join('/')
    const content = build?.files.get(name)
    if (build === undefined || content === undefined) return undefined
    const version = { mtimeMs: build.builtAtMs, size: content.length }
    const asset = await cache.find(`${build.directory}/${name}`, version, async () => content)
    return await assetReply(asset, cache, { headers: request.headers, cached: immutableHeaders })
  }

  async function sendPage(request: Pick<Request, 'path' | 'headers'>): Promise<Reply | undefined> {
    const build = await builds.current()
    const page = build?.files.get('index.html')
    if (build === null || page === undefined) return await sendPlainPage(request)
    const languages = request.headers['accept-language'] ?? ''
    const modules = (await modulesOf?.(request.path, languages).catch(() => [])) ?? []
    const content = withAddresses(page, { base, publicUrl, build, modules })
    const key = `${build.directory} ${modules.join(' ')}`
    const asset = await cache.find(key, { mtimeMs: build.builtAtMs, size: page.length }, async () => content, 'index.html')
    return await assetReply(asset, cache, { headers: request.headers, cached: { ...checkedHeaders, vary: 'accept-encoding, accept-language' } })
  }

  /** Of a directory without modules. */
  async function sendPlainPage({ headers }: Pick<Request, 'headers'>): Promise<Reply | undefined> {
    const path = join(directory, 'index.html')
    const found = await stat(path).catch(() => undefined)
    if (found === undefined) return undefined
    const asset = await cache.find(path, found, async () => withAddresses(await readFile(path), { base, publicUrl, build: null, modules: [] }))
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

/** The segments of a path below the directory; undefined for one that could lead elsewhere, or to a hidden file. */
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

/** Relative addresses in the page are relative to the base, whatever page of it is open. Its own files are the build's. */
function withAddresses(bytes: Buffer, { base, publicUrl, build, modules }: PageParts): Buffer {
  const meta = publicUrl === null ? '' : `<meta name="svc-public-url" content="${publicUrl}">`
  const page = bytes.toString('utf8').replace('<base href="/">', `<base href="${base}/">${meta}`)
  if (build === null) return Buffer.from(page)
  const needed = ['main.js', ...modules].flatMap(name => build.linked?.closure(name) ?? [name])
  const links = [...new Set(needed)].filter(name => name !== 'main.js' && build.files.has(name))
    .map(name => `<link rel="modulepreload" href="${build.directory}/${name}">\n    `).join('')
  return Buffer.from(page
    .replace('href="styles/', `href="${build.directory}/styles/`)
    .replace('<script type="module" src="main.js">', `${links}<script type="module" src="${build.directory}/main.js">`))
}

async function assetReply(
  asset: Asset, cache: Cache, { headers, cached }: Pick<Request, 'headers'> & { cached: Headers }
): Promise<Reply> {
  const coding = isCompressible(asset.type) && asset.size >= minCompressBytes ? chooseCoding(headers['accept-encoding']) : 'identity'
  const body = await cache.encode(asset, coding)
  const etag = coding === 'identity' ? `"${asset.tag}"` : `"${asset.tag}-${coding}"`
  const all: Headers = {
    ...(belongsToPage.test(asset.type) ? {} : policyHeaders), vary: 'accept-encoding', ...cached, 'content-type': asset.type, etag,
    'accept-ranges': 'bytes'
  }
  if (coding !== 'identity') all['content-encoding'] = coding
  const wanted = wantedPart(headers, { etag, modifiedMs: asset.mtimeMs, bytes: body.length })
  switch (wanted.outcome) {
    case 'unchanged':
      return { kind: 'empty', status: 304, headers: all }
    case 'unsatisfiable':
      return { kind: 'empty', status: 416, headers: { ...all, 'content-range': `bytes */${body.length}` } }
    case 'part':
      all['content-range'] = `bytes ${wanted.from}-${wanted.to}/${body.length}`
      return { kind: 'bytes', status: 206, body: body.subarray(wanted.from, wanted.to + 1), headers: all }
    case 'all':
      return { kind: 'bytes', status: 200, body, headers: all }
  }
}

/** Pictures are used again and again within one page, and a browser would ask again each time. */
function cachedFor({ type }: Asset): Headers {
  return type.startsWith('image/') ? { 'cache-control': 'max-age=300' } : checkedHeaders
}

/** Of a file, as `stat` gives it. */
interface Version {
  mtimeMs: number
  size: number
}

interface Cache {
  /** The asset of a key; `name` says its type, and is the key where it is not given. */
  find(key: string, version: Version, read: () => Promise<Buffer>, name?: string): Promise<Asset>
  encode(asset: Asset, coding: Coding): Promise<Buffer>
}

function createCache(): Cache {
  const assets = new Map<string, Asset>()
  /** Files that are being read: a thousand requests at once need one of each. */
  const reading = new Map<string, Promise<Asset>>()
  let bytes = 0

  function count(added: number): void {
    bytes += added
    if (bytes <= maxCacheBytes) return
    assets.clear()
    bytes = 0
  }

  async function make(key: string, { mtimeMs, size }: Version, read: () => Promise<Buffer>, name: string): Promise<Asset> {
    const content = await read()
    const tag = createHash('sha256').update(content).digest('base64url').slice(0, 22)
    const asset = { mtimeMs, size, type: contentType(name), tag, codings: { identity: Promise.resolve(content) } }
    assets.set(key, asset)
    count(content.length)
    return asset
  }

  return {
    async find(key, version, read, name = key) {
      const known = assets.get(key)
      if (known !== undefined && known.mtimeMs === version.mtimeMs && known.size === version.size) return known
      const begun = reading.get(key)
      if (begun !== undefined) return await begun
      const made = make(key, version, read, name)
      reading.set(key, made)
      try {
        return await made
      } finally {
        reading.delete(key)
      }
    },
    async encode(asset, coding) {
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
 * A window as large as the file. With the default of 4 MiB the tables that belong to it are cleared for each of the
 * small files of a panel: 100 ms of the first visit after a start instead of 15.
 */
function brotliParams(bytes: number): Record<number, number> {
  const windowBits = Math.ceil(Math.log2(bytes + 16))
  return {
    [constants.BROTLI_PARAM_QUALITY]: 9,
    [constants.BROTLI_PARAM_LGWIN]: Math.min(Math.max(windowBits, constants.BROTLI_MIN_WINDOW_BITS), constants.BROTLI_DEFAULT_WINDOW)
  }
}
