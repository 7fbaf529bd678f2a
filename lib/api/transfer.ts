import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { isAbsolute } from 'node:path'
import { Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { instantOf } from '../base/clock.js'
import { oneOf, unknownKey } from '../base/fields.js'
import { oneLine } from '../base/text.js'
import { invalid, isDiskFull, messageOf, reasonOf, Refusal, spaceCure } from '../base/errors.js'
import { json, type Reply, type Sink } from '../http/core/route.js'
import { strategies } from '../model/transfer.js'
import { summaryOf } from '../carry/backup/format.js'
import type { Caller } from '../access/bearer.js'
import { ndjson } from '../http/streams.js'
import { type Handler, queryPath, queryText, switchText } from './route.js'
import { readUploadForm } from './upload.js'
import type { ApiServices } from './services.js'

const maxRecent = 1_000_000

/** Handlers of export, import and verification (§2.14; docs/decisions.md, "Export, backup, upgrade"). */
export async function migrationHandlers({ deployer, quota, clock, ...doors }: ApiServices) {
  const transfer = await doors.transfer()
  return {
    export: async ({ query, actor }) => {
      const plan = await transfer.export({
        projects: idsOf(query),
        artifacts: switchText(query.get('artifacts'), 'artifacts') ?? true,
        logs: switchText(query.get('logs'), 'logs') ?? true,
        recent: recentOf(query),
        ignore: query.getAll('ignore').filter(Boolean),
        ignoreBuiltin: switchText(query.get('ignoreBuiltin'), 'ignoreBuiltin') ?? true,
        actor
      })
      const to = queryPath(query, 'to')
      if (to !== undefined) {
        return writeTo(to, actor, async (file, { onBegin, ...writing }) => {
          onBegin(plan.expectedBytes)
          return { manifest: await plan.write(file, writing) }
        })
      }
      const at = instantOf(clock).slice(0, 19).replaceAll(':', '-')
      return {
        kind: 'stream',
        status: 200,
        heldBytes: throughBytes,
        headers: {
          'content-type': 'application/zip',
          'content-disposition': `attachment; filename="svc-export-${at}.zip"`,
          'cache-control': 'no-store',
          'x-accel-buffering': 'no',
          'x-svc-expected-bytes': String(plan.expectedBytes)
        },
        run: sink => throughStream(sink, out => plan.write(out, { signal: sink.signal }))
      }
    },

    import: async request => {
      const { query, headers, actor, signal } = request
      for (const name of query.keys()) checkName(name)
      const isConfirmed = headers['x-confirm-overwrite'] === 'yes'
      // What the query says is checked before the package is received.
      if (importOptions(query, new Map()).strategy === 'overwrite' && !isConfirmed) throw unconfirmed()
      const claim = await quota.claim({ bytes: Number(headers['content-length'] ?? 0), projectId: null })
      const { received, fields } = await readUploadForm(request, {
        // max_upload_size does not apply: a package contains the archives of many deployments.
        receive: bytes =>
          deployer.receive(bytes, { limitBytes: Number.MAX_SAFE_INTEGER, onLength: claim.grow, signal }),
        onField(name, value) {
          checkName(name)
          importOptions(query, new Map([[name, value]]))
        }
      }).finally(claim.release)
      try {
        const options = importOptions(query, fields)
        if (options.strategy === 'overwrite' && !isConfirmed) throw unconfirmed()
        const result = await transfer.import(received.path, { ...options, actor, signal })
        return json({ success: true, ...result })
      } finally {
        // The import added outputs and archives.
        quota.recountLater()
        // The import is done. If the file cannot be removed now, the next start removes it.
        await received.discard().catch(() => {})
      }
    },

    verify: async () => json(await transfer.inspect())
  } satisfies Record<string, Handler>
}

const switches = { restoreArtifacts: true, accessSettings: false, dryRun: false } as const
const optionNames = ['strategy', ...Object.keys(switches)]

/** Refuses an unknown name: an option that is ignored would change more than was meant. A ticket authorizes the request. */
function checkName(name: string): void {
  if (optionNames.includes(name) || name === 'ticket') return
  throw unknownKey(oneLine(name), name, optionNames)
}

/** Reads the options of an import, which may be in the query or in the form. Refuses two different values. */
function importOptions(query: URLSearchParams, form: ReadonlyMap<string, string>) {
  const valuesOf = (name: string): string[] => [
    ...query.getAll(name),
    ...(form.has(name) ? [form.get(name) ?? ''] : [])
  ]
  const read = <T>(name: string, reader: (given: string) => T | undefined): T | undefined => {
    const given = valuesOf(name).flatMap(value => reader(value) ?? [])
    if (new Set(given).size > 1) throw invalid(name, `"${name}" is given twice, with different values`)
    return given[0]
  }
  const readSwitch = (name: keyof typeof switches): boolean =>
    read(name, given => switchText(given, name)) ?? switches[name]
  return {
    strategy:
      read('strategy', given => (given === '' ? undefined : oneOf(strategies)(given, 'strategy'))) ?? 'skip-existing',
    restoreArtifacts: readSwitch('restoreArtifacts'),
    accessSettings: readSwitch('accessSettings'),
    dryRun: readSwitch('dryRun')
  }
}

function idsOf(query: URLSearchParams): string[] | null {
  const ids = (queryText(query, 'projects') ?? '')
    .split(',')
    .map(id => id.trim())
    .filter(Boolean)
  return ids.length === 0 ? null : ids
}

function recentOf(query: URLSearchParams): number | null {
  const given = queryText(query, 'recent')
  if (given === undefined) return null
  if (/^\d{1,7}$/.test(given) && Number(given) <= maxRecent) return Number(given)
  throw invalid('recent', `"recent" is "${given}": expected a number of deployments`)
}

function unconfirmed(): Refusal {
  const sentence = 'The package was not imported: the strategy "overwrite" needs the header "X-Confirm-Overwrite: yes"'
  return new Refusal('invalid', 'confirmation_needed', sentence, { field: 'X-Confirm-Overwrite' })
}

/** Handler of `GET /api/backup`: writes a backup without its seal. `svc backup` adds the seal. */
export async function backupHandlers(doors: ApiServices) {
  const backups = await doors.backups()
  return {
    write: async ({ query, actor }) => {
      const to = queryPath(query, 'to')
      if (to !== undefined) {
        return writeTo(to, actor, async (file, writing) => summaryOf(await backups.write(file, { actor, ...writing })))
      }
      return {
        kind: 'stream',
        status: 200,
        heldBytes: throughBytes,
        headers: { 'content-type': 'application/zip', 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
        run: sink => throughStream(sink, out => backups.write(out, { actor, signal: sink.signal }))
      }
    }
  } satisfies Record<string, Handler>
}

/** Callbacks and signal for the work that writes the file. */
export interface FileWriting {
  onBegin(expectedBytes: number): void
  onProgress(bytes: number): void
  signal: AbortSignal
}

const progressEveryMs = 100

/**
 * Writes to an empty file that the operator on this machine named, so that the bytes do not pass through the socket.
 * Answers NDJSON lines: `begin` with the expected bytes, `progress`, then `done` with the result of `work`, or `error`.
 * Refuses: 403 for other callers, 503 `cannot_write_there` for a path that is not an empty file.
 */
export async function writeTo(
  path: string,
  actor: Caller,
  work: (file: FileHandle, writing: FileWriting) => Promise<object>
): Promise<Reply> {
  if (actor.role !== 'local')
    throw new Refusal(
      'forbidden',
      'forbidden',
      '"to" is only allowed through the socket in the data directory of the server'
    )
  return ndjson(async (write, signal) => {
    const file = await openEmpty(path)
    try {
      let toldAtMs = 0
      const onProgress = (bytes: number): void => {
        if (Date.now() - toldAtMs < progressEveryMs) return
        toldAtMs = Date.now()
        write({ event: 'progress', bytes }).catch(() => {})
      }
      const onBegin = (expectedBytes: number): void => void write({ event: 'begin', expectedBytes }).catch(() => {})
      await write({ event: 'done', ...(await work(file, { onBegin, onProgress, signal })) })
    } catch (error) {
      if (!(error instanceof Refusal || (error instanceof Error && 'syscall' in error)) || signal.aborted) throw error
      await write({ event: 'error', error: sentenceOf(error, path) })
    } finally {
      await file.close()
    }
  })
}

function sentenceOf(error: unknown, path: string): string {
  return isDiskFull(error)
    ? `${reasonOf(error)} at "${path}". ${spaceCure(error)}, or choose another place`
    : messageOf(error)
}

async function openEmpty(path: string): Promise<FileHandle> {
  const refuse = (why: string, cause?: unknown): Refusal =>
    new Refusal('unavailable', 'cannot_write_there', `Cannot write "${path}" on the server: ${why}`, {
      field: 'to',
      cause
    })
  if (!isAbsolute(path)) throw refuse('it is not an absolute path')
  const file = await open(path, constants.O_WRONLY | (constants.O_NOFOLLOW ?? 0)).catch(error => {
    throw refuse(reasonOf(error), error)
  })
  try {
    const stats = await file.stat()
    if (!stats.isFile() || stats.size > 0) throw refuse('it is not an empty file')
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** What `throughStream` holds while the client does not read. */
const throughBytes = 1024 * 1024

/**
 * Calls `work` with a stream that writes to the sink of a reply. Resolves when the sink has taken all bytes. If the
 * client disconnects after the last write, this rejects; the stream always has an error listener, so the process does
 * not crash.
 */
export async function throughStream(sink: Sink, work: (out: Writable) => Promise<unknown>): Promise<void> {
  const out = new Writable({
    highWaterMark: throughBytes,
    write(chunk: Uint8Array, _encoding, done) {
      sink.write(chunk).then(() => done(), done)
    }
  })
  const ended = finished(out)
  ended.catch(() => {})
  await work(out)
  out.end()
  await ended
}
