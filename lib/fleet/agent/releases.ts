/*
 * The releases that a node has fetched and not yet put in place. Archives are files in `prepared/` of the data directory:
 * `<sha256>.zip`, and `<sha256>.part` while one is being fetched, which continues there after a lost connection. They are
 * kept for 24 hours. Documents are only in memory, because they contain secrets.
 */
import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { createReadStream } from 'node:fs'
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { freeBytes, syncPath } from '../../base/files.js'
import { isDiskFull, Refusal } from '../../base/errors.js'
import { releaseSignatureHeader, type ReleaseDocument } from '../../model/fleet-wire.js'
import { formatBytes } from '../../shared/size.js'
import type { Duty } from '../../model/duty.js'
import { fetchDelta, giveUpIfSilent, minDeltaBytes } from './delta.js'
import { readRelease, type Keyring } from './from-hub.js'
import type { HubClient } from './hub-client.js'

/** A release that a node can put in place without its hub. */
export interface Release {
  document: ReleaseDocument
  /** The path of the archive. */
  archivePath: string
}

/** The releases of an agent. */
export interface Releases {
  /**
   * Fetches what is missing of a release, and checks it. Refuses: `no_space`, `wrong_release`, `wrong_digest`; what the
   * hub refuses; (`unavailable`) if the hub cannot be reached.
   */
  fetch(duty: Pick<Duty, 'projectId' | 'release'>, signal: AbortSignal): Promise<Release>
  /** Removes a release. */
  remove(release: Duty['release']): Promise<void>
  /** Removes the archives that were fetched more than 24 hours ago. `isInUse` says which ones stay. */
  sweep(nowMs: number, isInUse: (sha256: string) => boolean): Promise<void>
}

/** Dependencies of the releases. */
export interface ReleasesNeeds {
  /** The directory of the archives. It is created if it is missing. */
  directory: string
  client: Pick<HubClient, 'open'>
  keyring: Keyring
  /** Returns the path of the archive of what is in place of a project; null if there is none. It may be gone. */
  earlierArchive(projectId: string): string | null
}

/** How long a prepared archive is kept. */
export const preparedForMs = 24 * 60 * 60_000
const maxDocumentBytes = 8 * 1024 * 1024
const directoryMode = 0o700
const fileMode = 0o600
/** A complete archive, one of which the beginning was received, and one that is being joined. */
const endings = ['zip', 'part', 'delta'] as const
type Ending = (typeof endings)[number]
const sha256Pattern = /^[0-9a-f]{64}$/

/** Creates the releases of an agent. */
export function createReleases({ directory, client, keyring, earlierArchive }: ReleasesNeeds): Releases {
  const documents = new Map<string, ReleaseDocument>()
  const pathOf = (sha256: string, ending: Ending): string => join(directory, `${sha256}.${ending}`)

  async function documentOf({ projectId, release }: Pick<Duty, 'projectId' | 'release'>, signal: AbortSignal) {
    const known = documents.get(release.deployId)
    if (known !== undefined) return known
    const path = `/api/agent/releases/${encodeURIComponent(release.deployId)}`
    const { answer, asked } = await client.open({ method: 'GET', path, signal })
    const text = (await bytesOf(answer)).toString('utf8')
    const document = readRelease({ text, signature: answer.headers[releaseSignatureHeader] }, asked, keyring)
    if (document.projectId !== projectId || document.deployId !== release.deployId)
      throw wrongRelease('it is about another deployment')
    if (document.archiveSha256 !== release.archiveSha256) throw wrongRelease('it names another archive than the order')
    documents.set(release.deployId, document)
    return document
  }

  /** Fetches an archive. What the archive `earlier` has of it is not transferred again. */
  async function fetchArchive(
    { archiveSha256, archiveBytes }: Duty['release'],
    earlier: string | null,
    signal: AbortSignal
  ): Promise<string> {
    if (!sha256Pattern.test(archiveSha256)) throw wrongRelease('its digest is not a SHA-256')
    const [path, part] = [pathOf(archiveSha256, 'zip'), pathOf(archiveSha256, 'part')]
    if ((await sizeOf(path)) === archiveBytes) return path
    await mkdir(directory, { recursive: true, mode: directoryMode })
    await refuseFullDisk(directory, archiveBytes - ((await sizeOf(part)) ?? 0))
    const [into, isBegun] = [pathOf(archiveSha256, 'delta'), (await sizeOf(part)) !== null]
    if (earlier !== null && !isBegun && archiveBytes >= minDeltaBytes) {
      const wanted = { sha256: archiveSha256, bytes: archiveBytes, earlier, into }
      // Whatever went wrong, the whole archive is fetched next, and that says what is wrong.
      const isDone = (await fetchDelta(client, wanted, signal).catch(() => null)) === archiveSha256
      if (isDone) return keep(into, path)
      await rm(into, { force: true })
      signal.throwIfAborted()
    }
    const found = await receive({ part, archiveSha256, archiveBytes }, signal)
    if (found !== archiveSha256) {
      await rm(part, { force: true })
      throw new Refusal(
        'invalid',
        'wrong_digest',
        `The archive from the hub has the SHA-256 ${found}, not ${archiveSha256}`
      )
    }
    return keep(part, path)
  }

  async function keep(complete: string, path: string): Promise<string> {
    await syncPath(complete)
    await rename(complete, path)
    return path
  }

  /** Fetches the rest of an archive. Returns the digest of the whole file. */
  async function receive(
    { part, archiveSha256, archiveBytes }: { part: string; archiveSha256: string; archiveBytes: number },
    signal: AbortSignal
  ): Promise<string> {
    const before = (await sizeOf(part)) ?? 0
    if (before > archiveBytes) await rm(part)
    const from = before > archiveBytes ? 0 : before
    const hash = createHash('sha256')
    if (from === archiveBytes) return (await addFile(hash, part)).digest('hex')
    const headers: Record<string, string> = from === 0 ? {} : { range: `bytes=${from}-` }
    const path = `/api/agent/blobs/${archiveSha256}`
    const { answer } = await client.open({ method: 'GET', path, headers, signal })
    const isRest = answer.statusCode === 206
    if (isRest && !answer.headers['content-range']?.startsWith(`bytes ${from}-`)) {
      answer.destroy()
      throw new Refusal('unavailable', 'bad_answer', 'The hub sent another part of the archive than the one asked for')
    }
    if (isRest) await addFile(hash, part)
    await write(answer, { part, hash, offset: isRest ? from : 0, maxBytes: archiveBytes })
    return hash.digest('hex')
  }

  return {
    async fetch(duty, signal) {
      const document = await documentOf(duty, signal)
      const earlier = earlierArchive(duty.projectId)
      return { document, archivePath: await fetchArchive(duty.release, earlier, signal) }
    },
    async remove({ deployId, archiveSha256 }) {
      documents.delete(deployId)
      if (!sha256Pattern.test(archiveSha256)) return
      for (const ending of endings) await rm(pathOf(archiveSha256, ending), { force: true })
    },
    async sweep(nowMs, isInUse) {
      for (const name of await readdir(directory).catch(() => [])) {
        const [, sha256] = /^([0-9a-f]{64})\.(?:zip|part|delta)$/.exec(name) ?? []
        const found = await stat(join(directory, name)).catch(() => null)
        if (sha256 === undefined || found === null || isInUse(sha256)) continue
        if (nowMs - found.mtimeMs < preparedForMs) continue
        await rm(join(directory, name), { force: true })
        for (const [id, document] of documents) if (document.archiveSha256 === sha256) documents.delete(id)
      }
    }
  }
}

interface Writing {
  part: string
  hash: Hash
  offset: number
  maxBytes: number
}

async function write(answer: IncomingMessage, { part, hash, offset, maxBytes }: Writing): Promise<void> {
  giveUpIfSilent(answer)
  const file = await open(part, offset === 0 ? 'w' : 'r+', fileMode)
  try {
    let at = offset
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      if (at + chunk.length > maxBytes) throw wrongRelease('the archive is longer than the order says')
      await file.write(chunk, 0, chunk.length, at)
      hash.update(chunk)
      at += chunk.length
    }
    if (at < maxBytes) throw new Refusal('unavailable', 'stream_broken', 'The transfer of the archive ended early')
  } catch (error) {
    if (isDiskFull(error)) {
      await rm(part, { force: true })
      throw new Refusal('invalid', 'no_space', `Cannot store the archive: no space left for "${part}"`, {
        cause: error
      })
    }
    throw error
  } finally {
    answer.destroy()
    await file.close()
  }
}

async function addFile(hash: Hash, path: string): Promise<Hash> {
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer)
  return hash
}

async function sizeOf(path: string): Promise<number | null> {
  return stat(path).then(
    ({ size }) => size,
    () => null
  )
}

async function refuseFullDisk(directory: string, bytes: number): Promise<void> {
  const free = await freeBytes(directory)
  if (free === null || bytes <= free) return
  const sentence = `The archive needs ${formatBytes(bytes)} in "${directory}", and ${formatBytes(free)} are free`
  throw new Refusal('invalid', 'no_space', sentence)
}

async function bytesOf(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > maxDocumentBytes) throw wrongRelease('its description is too long')
  }
  return Buffer.concat(chunks)
}

function wrongRelease(why: string): Refusal {
  return new Refusal('invalid', 'wrong_release', `Cannot use the release from the hub: ${why}`)
}
