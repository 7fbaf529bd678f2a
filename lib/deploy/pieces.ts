/*
 * Uploads that come in pieces, and that a client continues after a broken connection, a restart of the server, or from
 * another process.
 *
 * An upload is two files in `tmp/`: `<id>.part`, which grows, and `<id>.json`, which says what it becomes. Their names do
 * not end like those that a start removes. The offset is the length of the part. It is acknowledged after the write, and
 * synced every 64 MiB and at the end. After a power cut the file may end with bytes that were never written, so then only
 * what was synced counts: the description names the boot in which it was written.
 *
 * The content is identified by its SHA-256, if the client states it: a second process that sends the same finds the upload
 * and continues it. The digest is computed while pieces arrive, or from the file after a restart, and compared at the end.
 *
 * An upload belongs to a project and to the caller that began it. For everybody else it does not exist. One piece is
 * written at a time. A piece that has been silent for some seconds makes way for another: its connection is dead, and the
 * server cannot see that yet.
 */
import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { type Clock, machineTimeOf } from '../base/clock.js'
import { type Ids, sha256OfFile, namedById } from '../base/digests.js'
import { nullIfMissing, Refusal } from '../base/errors.js'
import { replaceFile } from '../base/files.js'
import { thisBoot } from '../base/runtime.js'
import type { OpenUpload } from '../model/access.js'
import { refuseFullDisk } from './failure.js'
import { type DeployHome, makeDirectories } from './files.js'
import { empty, type Intake, type Received } from './intake.js'

/** What a client announces. */
export interface Announced {
  projectId: string
  bytes: number
  /** SHA-256 of the whole, in hexadecimal; null: unknown. */
  sha256: string | null
}

/** Who asks for an upload. */
export interface Asker {
  /** Who began it: the id of a named token, or the name of another caller. */
  owner: string
}

export interface Piece {
  offset: number
  body: Readable
  /** Number of bytes that the client has announced; null: unknown. */
  bytes: number | null
  /** Whether to keep the beginning of a piece that was cut off. */
  keepsPart: boolean
}

/** A complete upload. The deployment takes the file as that of a form. */
export interface Taken {
  received: Received
  /** Removes the upload: its archive is kept. Otherwise `received.discard` leaves it to be used again. */
  finish(): Promise<void>
}

interface Claim {
  grow(bytes: number): void
  release(): void
}

interface PiecesNeeds {
  home: DeployHome
  ids: Ids
  clock: Clock
  /** Reserves the space of an upload for as long as it exists. */
  quota: { claim(given: { bytes: number; before: number; projectId: string }): Promise<Claim> }
  /** Whether an owner was revoked: nobody can finish what it began. */
  hasEnded(owner: string): boolean
  /** Counts a piece while it arrives. */
  during: Intake['during']
  log(message: string, error?: unknown): void
}

/** What `<id>.json` contains. */
interface Description extends Announced, Asker {
  id: string
  createdAtMs: number
  /** Length that is on the disk for sure, whatever happens. */
  syncedBytes: number
  boot: string | null
}

interface Upload extends Description {
  offset: number
  usedAtMs: number
  /** Digest of all bytes up to the offset; null: it must be computed from the file. */
  hash: Hash | null
  claim: Claim | null
  writer: Writer | null
  isTaken: boolean
}

/** A piece that arrives. */
interface Writer {
  body: Readable
  /** When bytes arrived last. */
  heardAtMs: number
  done: Promise<unknown>
}

/** Length of the first piece: less than 1 MiB, which proxies pass on if nobody has configured them. */
const firstPieceBytes = 983_040
/** How long an upload lives after its last use, and in all. */
const idleLifeMs = 24 * 3_600_000
const longestLifeMs = 7 * 24 * 3_600_000
/** Maximum number of unfinished uploads: of a project, and in all. */
const maxOfProject = 4
const maxUploads = 32
const syncEveryBytes = 64 * 1024 * 1024
const silentMs = 5000
const sweepEveryMs = 3_600_000
const retryAfterSeconds = 2
const filePattern = namedById('upl_', String.raw`(?:part|json)(?:\.[0-9a-f]{12}\.tmp)?`)

/** Uploads in pieces. */
export class Pieces {
  readonly #needs: PiecesNeeds
  readonly #uploads = new Map<string, Upload>()
  #loaded: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(needs: PiecesNeeds) {
    this.#needs = needs
  }

  /** Takes up what an earlier process left, and removes what is too old or torn. Only the first call does anything. */
  load(): Promise<void> {
    return (this.#loaded ??= this.#load())
  }

  /** Whether a caller has unfinished uploads. */
  hasOf(owner: string): boolean {
    return [...this.#uploads.values()].some(upload => upload.owner === owner && !this.#hasExpired(upload))
  }

  /**
   * Begins an upload, or returns the one with this content that the same caller has begun and nobody is sending.
   * Refuses: 400 `empty_upload`, 429 `too_many_uploads`, and what the quota refuses.
   */
  async begin(announced: Announced, { owner }: Asker): Promise<OpenUpload> {
    await this.#ready()
    const { bytes, projectId } = announced
    if (bytes === 0) throw empty()
    const found = this.#sameAs({ ...announced, owner })
    if (found !== undefined) {
      await this.#reserve(found)
      found.usedAtMs = this.#now()
      return this.#view(found)
    }
    const { ids, quota } = this.#needs
    const claim = await quota.claim({ bytes, before: 0, projectId })
    try {
      // No await before the upload is in the list: of two requests the second sees the first.
      this.#checkRoom(projectId)
      const now = this.#now()
      const id = ids.id('upl_')
      const description = { ...announced, id, owner, createdAtMs: now, syncedBytes: 0, boot: thisBoot() }
      const upload: Upload = { ...description, offset: 0, usedAtMs: now, hash: createHash('sha256'), claim, ...idle }
      this.#uploads.set(id, upload)
      await this.#create(upload)
      this.#watch()
      return this.#view(upload)
    } catch (error) {
      claim.release()
      throw refuseFullDisk(error)
    }
  }

  /** Returns an upload. Refuses: 404 `upload_unknown`. */
  async find(id: string, asker: Asker): Promise<OpenUpload> {
    await this.#ready()
    return this.#view(this.#get(id, asker))
  }

  /**
   * Appends a piece, and returns the offset after it. What arrived of a piece that was cut off stays. Refuses: 404
   * `upload_unknown`, 409 `wrong_offset`, `upload_busy`, 400 `piece_too_long`, `disk_full`, and the codes of the body.
   */
  async append(id: string, piece: Piece, asker: Asker): Promise<OpenUpload> {
    await this.#ready()
    const upload = this.#get(id, asker)
    await this.#interrupt(upload)
    if (!this.#uploads.has(id)) throw unknown()
    if (upload.isTaken) throw busy()
    if (piece.offset !== upload.offset) throw wrongOffset(piece.offset, upload.offset)
    if ((piece.bytes ?? 0) > upload.bytes - upload.offset) throw tooLong(upload.bytes)
    const writer: Writer = { body: piece.body, heardAtMs: this.#now(), done: Promise.resolve() }
    upload.writer = writer
    const writing = this.#needs.during(received => this.#write(upload, { ...piece, writer, received }))
    writer.done = writing.catch(() => {})
    try {
      await writing
    } finally {
      upload.writer = null
      upload.usedAtMs = this.#now()
    }
    return this.#view(upload)
  }

  /**
   * Returns a complete upload of a project. Refuses: 404 `upload_unknown`, 409 `upload_incomplete`, `upload_busy`, 400
   * `upload_differs`.
   */
  async take(id: string, projectId: string, asker: Asker): Promise<Taken> {
    await this.#ready()
    const upload = this.#get(id, asker)
    if (upload.projectId !== projectId) throw unknown()
    if (upload.isTaken || upload.writer !== null) throw busy()
    if (upload.offset < upload.bytes) throw incomplete(upload)
    upload.isTaken = true
    const release = (): void => void (upload.isTaken = false)
    try {
      const path = this.#path(id, 'part')
      await (await this.#open(upload)).close()
      const sha256 = upload.hash?.copy().digest('hex') ?? (await sha256OfFile(path))
      if (upload.sha256 !== null && upload.sha256 !== sha256) {
        await this.#remove(upload)
        throw differs()
      }
      upload.sha256 = sha256
      const startedAt = new Date(upload.createdAtMs).toISOString()
      const endedAt = new Date(this.#now()).toISOString()
      const discard = async (): Promise<void> => release()
      const received = { path, bytes: upload.bytes, sha256, startedAt, endedAt, discard }
      return { received, finish: () => this.#remove(upload) }
    } catch (error) {
      release()
      throw error
    }
  }

  /** Removes an upload. Refuses: 404 `upload_unknown`, 409 `upload_busy`. */
  async remove(id: string, asker: Asker): Promise<void> {
    await this.#ready()
    const upload = this.#get(id, asker)
    if (upload.isTaken) throw busy()
    upload.writer?.body.destroy(unknown())
    await upload.writer?.done
    await this.#remove(upload)
  }

  /** Stops removing what has expired. */
  close(): void {
    clearInterval(this.#timer)
    this.#isClosed = true
  }

  #now(): number {
    return machineTimeOf(this.#needs.clock)
  }

  #path(id: string, ending: 'part' | 'json'): string {
    return join(this.#needs.home.tmp, `${id}.${ending}`)
  }

  async #ready(): Promise<void> {
    await this.load()
    await this.#sweep()
  }

  #expiresAtMs({ usedAtMs, createdAtMs }: Upload): number {
    return Math.min(usedAtMs + idleLifeMs, createdAtMs + longestLifeMs)
  }

  #hasExpired(upload: Upload): boolean {
    if (upload.writer !== null || upload.isTaken) return false
    return this.#now() >= this.#expiresAtMs(upload) || this.#needs.hasEnded(upload.owner)
  }

  #get(id: string, { owner }: Asker): Upload {
    const upload = this.#uploads.get(id)
    if (upload === undefined || upload.owner !== owner) throw unknown()
    return upload
  }

  #view(upload: Upload): OpenUpload {
    const { id, bytes, offset } = upload
    const expiresAt = new Date(this.#expiresAtMs(upload)).toISOString()
    return { uploadId: id, offset, bytes, expiresAt, pieceBytes: firstPieceBytes }
  }

  #sameAs({ projectId, bytes, sha256, owner }: Announced & Asker): Upload | undefined {
    if (sha256 === null) return undefined
    const isSame = (each: Upload): boolean =>
      each.sha256 === sha256 && each.bytes === bytes && each.projectId === projectId && each.owner === owner
    return [...this.#uploads.values()].find(each => isSame(each) && !each.isTaken && !this.#isHeard(each))
  }

  /** Whether a piece arrives now. */
  #isHeard({ writer }: Upload): boolean {
    return writer !== null && this.#now() - writer.heardAtMs < silentMs
  }

  #checkRoom(projectId: string): void {
    const all = [...this.#uploads.values()]
    const ofProject = all.filter(each => each.projectId === projectId).length
    if (ofProject >= maxOfProject) throw tooMany(`The project has ${ofProject} unfinished uploads`)
    if (all.length >= maxUploads) throw tooMany(`The server has ${all.length} unfinished uploads`)
  }

  async #create(upload: Upload): Promise<void> {
    try {
      await makeDirectories(this.#needs.home)
      const part = await open(this.#path(upload.id, 'part'), 'wx', 0o600)
      await part.close()
      await this.#describe(upload)
    } catch (error) {
      await this.#remove(upload)
      throw error
    }
  }

  #describe({ id, projectId, bytes, sha256, owner, createdAtMs, syncedBytes, boot }: Upload): Promise<void> {
    const description: Description = { id, projectId, bytes, sha256, owner, createdAtMs, syncedBytes, boot }
    return replaceFile(this.#path(id, 'json'), JSON.stringify(description), 0o600)
  }

  /** Reserves the space of an upload that an earlier process began. */
  async #reserve(upload: Upload): Promise<void> {
    const { bytes, offset, projectId } = upload
    const claim = upload.claim === null ? await this.#needs.quota.claim({ bytes, before: offset, projectId }) : null
    if (claim === null) return
    // Two requests at once may both have asked.
    if (upload.claim === null && this.#uploads.has(upload.id)) upload.claim = claim
    else claim.release()
  }

  /** Ends the piece that arrives, if it is silent. */
  async #interrupt(upload: Upload): Promise<void> {
    if (this.#isHeard(upload)) throw busy()
    if (upload.writer === null) return
    const { body, done } = upload.writer
    body.destroy(busy())
    await done
    // Another request may have waited for the same.
    if (upload.writer !== null) throw busy()
  }

  async #write(
    upload: Upload,
    { body, keepsPart, writer, received }: Piece & { writer: Writer; received: (bytes: number) => void }
  ): Promise<void> {
    const begin = upload.offset
    let file: FileHandle | undefined
    try {
      await this.#reserve(upload)
      file = await this.#open(upload)
      for await (const chunk of body as AsyncIterable<Buffer>) {
        if (chunk.length > upload.bytes - upload.offset) {
          keepsPart = false
          throw tooLong(upload.bytes)
        }
        writer.heardAtMs = this.#now()
        await writeAll(file, chunk, upload.offset)
        upload.hash?.update(chunk)
        upload.offset += chunk.length
        received(chunk.length)
        upload.claim?.grow(upload.offset)
        const isDue = upload.offset - upload.syncedBytes >= syncEveryBytes || upload.offset === upload.bytes
        if (isDue) await this.#sync(upload, file)
      }
    } catch (error) {
      if (!keepsPart) await this.#goBack(upload, file, begin)
      throw refuseFullDisk(error)
    } finally {
      await file?.close()
    }
  }

  /** Opens the part. If another program has removed it or cut it off, the upload is lost, and is removed. */
  async #open(upload: Upload): Promise<FileHandle> {
    const file = await open(this.#path(upload.id, 'part'), 'r+').catch(nullIfMissing)
    if (file !== null && (await file.stat()).size >= upload.offset) return file
    await file?.close()
    await this.#remove(upload)
    throw unknown()
  }

  async #sync(upload: Upload, file: FileHandle): Promise<void> {
    await file.datasync()
    upload.syncedBytes = upload.offset
    upload.boot = thisBoot()
    await this.#describe(upload)
  }

  async #goBack(upload: Upload, file: FileHandle | undefined, offset: number): Promise<void> {
    if (upload.offset === offset) return
    await file?.truncate(offset)
    upload.offset = offset
    upload.hash = null
    if (upload.syncedBytes <= offset) return
    upload.syncedBytes = offset
    await this.#describe(upload)
  }

  async #remove(upload: Upload): Promise<void> {
    this.#uploads.delete(upload.id)
    upload.claim?.release()
    upload.claim = null
    await rm(this.#path(upload.id, 'json'), { force: true })
    await rm(this.#path(upload.id, 'part'), { force: true })
    if (this.#uploads.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Removes the uploads that nobody has used for a day, or can finish. */
  async #sweep(): Promise<void> {
    for (const upload of [...this.#uploads.values()]) if (this.#hasExpired(upload)) await this.#remove(upload)
  }

  #watch(): void {
    const sweep = (): void =>
      void this.#sweep().catch(error => this.#needs.log('Cannot remove an upload that has expired', error))
    if (!this.#isClosed) this.#timer ??= setInterval(sweep, sweepEveryMs).unref()
  }

  async #load(): Promise<void> {
    const { home, log } = this.#needs
    const names = await readdir(home.tmp).catch(() => [])
    const ids = new Set(names.flatMap(name => filePattern.exec(name)?.[1] ?? []))
    for (const id of ids) {
      const upload = await this.#restore(id).catch(() => null)
      if (upload !== null) this.#uploads.set(id, upload)
      const wanted = upload === null ? [] : [`${id}.part`, `${id}.json`]
      const rest = names.filter(name => filePattern.exec(name)?.[1] === id && !wanted.includes(name))
      for (const name of rest) await rm(join(home.tmp, name), { force: true })
    }
    await this.#sweep()
    for (const upload of this.#uploads.values()) {
      // Without the space, the next piece is refused.
      await this.#reserve(upload).catch((error: unknown) => {
        if (!(error instanceof Refusal)) log(`Cannot reserve space for the upload ${upload.id}`, error)
      })
    }
    if (this.#uploads.size > 0) this.#watch()
  }

  async #restore(id: string): Promise<Upload> {
    const description = JSON.parse(await readFile(this.#path(id, 'json'), 'utf8')) as Description
    const { size, mtimeMs } = await stat(this.#path(id, 'part'))
    const isSameBoot = description.boot !== null && description.boot === thisBoot()
    const offset = Math.min(size, isSameBoot ? description.bytes : description.syncedBytes)
    if (size !== offset) await truncateTo(this.#path(id, 'part'), offset)
    const hash = offset === 0 ? createHash('sha256') : null
    return { ...description, id, offset, usedAtMs: mtimeMs, hash, claim: null, ...idle }
  }
}

const idle = { writer: null, isTaken: false }

async function writeAll(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let at = 0; at < bytes.length; )
    at += (await file.write(bytes, at, bytes.length - at, position + at)).bytesWritten
}

async function truncateTo(path: string, bytes: number): Promise<void> {
  const file = await open(path, 'r+')
  try {
    await file.truncate(bytes)
  } finally {
    await file.close()
  }
}

function unknown(): Refusal {
  const sentence =
    'Upload not found: it was finished or dropped, it has expired, or another token began it. Begin a new one'
  return new Refusal('not_found', 'upload_unknown', sentence, { field: 'uploadId' })
}

/** The refusal of a piece that does not begin where the upload ends. */
export class WrongOffset extends Refusal {
  /** The right offset. */
  readonly offset: number

  constructor(given: number, offset: number) {
    const sentence = `The piece begins at byte ${given}, but the upload continues at byte ${offset}`
    super('conflict', 'wrong_offset', sentence, { field: 'Upload-Offset' })
    this.offset = offset
  }
}

function wrongOffset(given: number, offset: number): Refusal {
  return new WrongOffset(given, offset)
}

function busy(): Refusal {
  const sentence = 'Another request is using this upload at the moment'
  return new Refusal('conflict', 'upload_busy', sentence, { retryAfterSeconds })
}

function tooLong(bytes: number): Refusal {
  return new Refusal('invalid', 'piece_too_long', `The piece is too long: the upload was announced with ${bytes} bytes`)
}

function incomplete({ offset, bytes }: Upload): Refusal {
  const sentence = `The upload is incomplete: ${offset} of ${bytes} bytes have arrived`
  return new Refusal('conflict', 'upload_incomplete', sentence, { field: 'uploadId' })
}

function differs(): Refusal {
  const sentence = 'What was uploaded is not what was announced: its SHA-256 is another one. The upload was removed'
  return new Refusal('invalid', 'upload_differs', sentence, { field: 'uploadId' })
}

function tooMany(what: string): Refusal {
  const sentence = `${what}. Finish or drop one, or send the archive in one request. An upload expires 24 hours after its last use`
  return new Refusal('too_many', 'too_many_uploads', sentence)
}
