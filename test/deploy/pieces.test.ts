import t from 'tap'
import type { Test } from 'tap'
import { createHash } from 'node:crypto'
import { appendFile, mkdtemp, readdir, readFile, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { randomIds } from '../../lib/base/digests.js'
import { Refusal } from '../../lib/base/errors.js'
import { Pieces } from '../../lib/deploy/pieces.js'
import { setClock } from '../support/clock.js'
import { createRandom } from '../support/random.js'
import { until } from '../support/until.js'

const hourMs = 3_600_000
const owner = { owner: 'tok_1' }
const projectId = 'proj_1'

/** Uploads in a directory of their own. `restart` takes up its files, as the next process does. */
async function piecesStage(t: Test, freeBytes = Infinity) {
  const directory = await mkdtemp(join(tmpdir(), 'svc-pieces-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  const home = { directory, deployments: join(directory, 'deployments'), tmp: join(directory, 'tmp') }
  const clock = setClock(Date.now())
  let claimed = 0
  const quota = {
    async claim({ bytes, before }: { bytes: number; before: number }) {
      if (claimed + bytes - before > freeBytes) throw new Refusal('unavailable', 'disk_full', 'full')
      claimed += bytes - before
      return { grow() {}, release: () => void (claimed -= bytes - before) }
    }
  }
  const open = (): Pieces =>
    new Pieces({
      home,
      ids: randomIds,
      clock,
      quota,
      hasEnded: () => false,
      during: work => work(() => {}),
      log: () => {}
    })
  const stage = {
    home,
    clock,
    pieces: open(),
    claimed: () => claimed,
    restart() {
      stage.pieces.close()
      claimed = 0
      stage.pieces = open()
    }
  }
  t.teardown(() => stage.pieces.close())
  return stage
}

const content = (bytes: number): Buffer => Buffer.from(Array.from({ length: bytes }, (_, at) => at * 7 + (at >> 8)))
const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const pieceOf = (offset: number, body: Buffer | Readable) => ({
  offset,
  body: body instanceof Readable ? body : Readable.from([body]),
  bytes: body instanceof Readable ? null : body.length,
  keepsPart: true
})
const announced = (bytes: Buffer, sha256: string | null = digest(bytes)) => ({ projectId, bytes: bytes.length, sha256 })
const code = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: Refusal) => error.code
  )

t.test('pieces become one file, with its digest, that only the owner reads', async t => {
  const { pieces, home } = await piecesStage(t)
  const bytes = content(1000)
  const upload = await pieces.begin(announced(bytes), owner)
  t.match(upload, { offset: 0, bytes: 1000, pieceBytes: 983_040 })
  const { uploadId: id } = upload
  t.equal(await code(pieces.take(id, projectId, owner)), 'upload_incomplete')
  for (const [from, to] of [
    [0, 400],
    [400, 401],
    [401, 1000]
  ] as const)
    t.match(await pieces.append(id, pieceOf(from, bytes.subarray(from, to)), owner), { offset: to })
  const { received, finish } = await pieces.take(id, projectId, owner)
  t.match(received, { bytes: 1000, sha256: digest(bytes) })
  t.ok(bytes.equals(await readFile(received.path)))
  t.equal((await stat(received.path)).mode & 0o777, 0o600)
  t.equal(await code(pieces.take(id, projectId, owner)), 'upload_busy', 'only one deployment takes it')
  await received.discard()
  await (await pieces.take(id, projectId, owner)).finish()
  await finish()
  t.strictSame(await readdir(home.tmp), [], 'nothing is left')
  t.equal(await code(pieces.find(id, owner)), 'upload_unknown')
})

t.test('refuses a wrong offset with the right one, and a piece that is too long', async t => {
  const { pieces } = await piecesStage(t)
  const bytes = content(100)
  const { uploadId: id } = await pieces.begin(announced(bytes), owner)
  await pieces.append(id, pieceOf(0, bytes.subarray(0, 60)), owner)
  for (const offset of [0, 59, 61, 100])
    await t.rejects(pieces.append(id, pieceOf(offset, bytes.subarray(60)), owner), { code: 'wrong_offset', offset: 60 })
  t.equal(await code(pieces.append(id, pieceOf(60, content(41)), owner)), 'piece_too_long')
  const unannounced = Readable.from([bytes.subarray(60, 90), content(20)])
  t.equal(await code(pieces.append(id, pieceOf(60, unannounced), owner)), 'piece_too_long')
  t.match(await pieces.find(id, owner), { offset: 60 }, 'nothing of the long piece stays')
  await pieces.append(id, pieceOf(60, bytes.subarray(60)), owner)
  t.equal((await pieces.take(id, projectId, owner)).received.sha256, digest(bytes))
})

t.test('an upload belongs to its caller and its project', async t => {
  const { pieces } = await piecesStage(t)
  const bytes = content(10)
  const { uploadId: id } = await pieces.begin(announced(bytes), owner)
  const other = { owner: 'tok_2' }
  t.equal(await code(pieces.find(id, other)), 'upload_unknown')
  t.equal(await code(pieces.append(id, pieceOf(0, bytes), other)), 'upload_unknown')
  t.equal(await code(pieces.remove(id, other)), 'upload_unknown')
  await pieces.append(id, pieceOf(0, bytes), owner)
  t.equal(await code(pieces.take(id, 'proj_2', owner)), 'upload_unknown')
  t.equal(await code(pieces.take(id, projectId, other)), 'upload_unknown')
  t.not((await pieces.begin(announced(bytes), other)).uploadId, id, 'the same content of another caller is another one')
  await pieces.remove(id, owner)
  t.equal(await code(pieces.find(id, owner)), 'upload_unknown')
})

t.test('the same content is continued, also by the next process and after any cut', async t => {
  const stage = await piecesStage(t)
  const bytes = content(300_000)
  const random = createRandom(1)
  let ids = new Set<string>()
  for (let offset = 0; offset < bytes.length; ) {
    if (random.below(2) === 0) stage.restart()
    const upload = await stage.pieces.begin(announced(bytes), owner)
    ids = ids.add(upload.uploadId)
    t.equal(upload.offset, offset, `continues at ${offset}`)
    const length = Math.min(bytes.length - offset, 1 + random.below(40_000))
    const body = new PassThrough()
    const appending = stage.pieces.append(upload.uploadId, pieceOf(offset, body), owner)
    body.write(bytes.subarray(offset, offset + length))
    offset += length
    await until(async () => (await stage.pieces.find(upload.uploadId, owner)).offset === offset)
    body.destroy(new Refusal('invalid', 'aborted', 'cut'))
    t.equal(await code(appending), 'aborted')
  }
  t.equal(ids.size, 1)
  const [id = ''] = ids
  t.equal((await stage.pieces.take(id, projectId, owner)).received.sha256, digest(bytes))
})

t.test('a piece that must be whole leaves nothing if it was cut', async t => {
  const { pieces } = await piecesStage(t)
  const bytes = content(100)
  const { uploadId: id } = await pieces.begin(announced(bytes), owner)
  const body = new PassThrough()
  const appending = code(pieces.append(id, { ...pieceOf(0, body), keepsPart: false }, owner))
  body.write(bytes.subarray(0, 50))
  await until(async () => (await pieces.find(id, owner)).offset === 50)
  body.destroy(new Refusal('forbidden', 'hub_refused', 'not whole'))
  t.equal(await appending, 'hub_refused')
  t.match(await pieces.find(id, owner), { offset: 0 })
  await pieces.append(id, pieceOf(0, bytes), owner)
  t.equal((await pieces.take(id, projectId, owner)).received.sha256, digest(bytes))
})

t.test('one piece at a time; a silent one makes way', async t => {
  const { pieces, clock } = await piecesStage(t)
  const bytes = content(100)
  const { uploadId: id } = await pieces.begin(announced(bytes), owner)
  const dead = new PassThrough()
  const first = code(pieces.append(id, pieceOf(0, dead), owner))
  dead.write(bytes.subarray(0, 30))
  await until(async () => (await pieces.find(id, owner)).offset === 30)
  t.equal(await code(pieces.append(id, pieceOf(30, bytes.subarray(30)), owner)), 'upload_busy')
  t.not((await pieces.begin(announced(bytes), owner)).uploadId, id, 'nobody continues what is being sent')
  clock.advance(5000)
  t.match(await pieces.begin(announced(bytes), owner), { uploadId: id, offset: 30 })
  t.match(await pieces.append(id, pieceOf(30, bytes.subarray(30)), owner), { offset: 100 })
  t.equal(await first, 'upload_busy')
  t.equal((await pieces.take(id, projectId, owner)).received.sha256, digest(bytes))
})

t.test('content other than announced is refused, and gone', async t => {
  const stage = await piecesStage(t)
  const bytes = content(100)
  for (const isRestarted of [false, true]) {
    const { uploadId: id } = await stage.pieces.begin(announced(bytes, digest(content(5))), owner)
    await stage.pieces.append(id, pieceOf(0, bytes), owner)
    if (isRestarted) stage.restart()
    t.equal(await code(stage.pieces.take(id, projectId, owner)), 'upload_differs')
    t.strictSame(await readdir(stage.home.tmp), [])
  }
})

t.test('after a power cut, only what was synced counts', async t => {
  const stage = await piecesStage(t)
  const bytes = content(100)
  const { uploadId: id } = await stage.pieces.begin(announced(bytes), owner)
  await stage.pieces.append(id, pieceOf(0, bytes.subarray(0, 60)), owner)
  const [json, part] = [join(stage.home.tmp, `${id}.json`), join(stage.home.tmp, `${id}.part`)]
  const description = JSON.parse(await readFile(json, 'utf8'))
  await writeFile(json, JSON.stringify({ ...description, boot: 'another', syncedBytes: 40 }))
  await appendFile(part, Buffer.alloc(7))
  stage.restart()
  t.match(await stage.pieces.find(id, owner), { offset: 40 })
  await stage.pieces.append(id, pieceOf(40, bytes.subarray(40)), owner)
  await writeFile(json, JSON.stringify({ ...JSON.parse(await readFile(json, 'utf8')), boot: 'another' }))
  stage.restart()
  t.match(await stage.pieces.find(id, owner), { offset: 100 }, 'the end is synced')
  t.equal((await stage.pieces.take(id, projectId, owner)).received.sha256, digest(bytes))
})

t.test('a restart removes what is torn or old', async t => {
  const stage = await piecesStage(t)
  const { home, clock } = stage
  const ids = await Promise.all(
    [11, 12, 13, 14].map(async n => (await stage.pieces.begin(announced(content(n)), owner)).uploadId)
  )
  const [kept = '', torn = '', lost = '', old = ''] = ids
  await truncate(join(home.tmp, `${torn}.json`), 20)
  await rm(join(home.tmp, `${lost}.part`))
  await writeFile(join(home.tmp, `${kept}.json.0123456789ab.tmp`), '{')
  const longAgo = new Date(clock.now() - 25 * hourMs)
  await utimes(join(home.tmp, `${old}.part`), longAgo, longAgo)
  await writeFile(join(home.tmp, 'other.part'), 'not ours')
  stage.restart()
  await stage.pieces.load()
  t.strictSame((await readdir(home.tmp)).sort(), ['other.part', `${kept}.json`, `${kept}.part`].sort())
  t.equal(stage.claimed(), 11, 'its space is reserved again')
})

t.test('expires a day after its last use, and after a week in any case', async t => {
  const { pieces, clock, home } = await piecesStage(t)
  const bytes = content(1000)
  const { uploadId: id } = await pieces.begin(announced(bytes), owner)
  for (let day = 0; day < 7; day++) {
    clock.advance(23 * hourMs)
    await pieces.append(id, pieceOf(day, bytes.subarray(day, day + 1)), owner)
  }
  clock.advance(7 * hourMs)
  t.equal(await code(pieces.find(id, owner)), 'upload_unknown', 'after a week')
  const { uploadId: left } = await pieces.begin(announced(bytes), owner)
  clock.advance(24 * hourMs - 1)
  t.equal(await code(pieces.find(left, owner)), 'done')
  t.ok(pieces.hasOf(owner.owner))
  clock.advance(1)
  t.notOk(pieces.hasOf(owner.owner))
  t.equal(await code(pieces.append(left, pieceOf(0, bytes), owner)), 'upload_unknown')
  t.strictSame(await readdir(home.tmp), [])
})

t.test('the number of uploads, and their space, are limited', async t => {
  const { pieces, claimed, home } = await piecesStage(t, 10_000)
  const begin = (project: string, bytes: number) => pieces.begin({ projectId: project, bytes, sha256: null }, owner)
  t.equal(await code(begin('proj_0', 0)), 'empty_upload')
  t.equal(await code(begin('proj_0', 10_001)), 'disk_full')
  const all = await Promise.all(Array.from({ length: 5 }, () => code(begin('proj_0', 10))))
  t.strictSame(all.sort(), ['done', 'done', 'done', 'done', 'too_many_uploads'])
  for (let n = 0; n < 28; n++) await begin(`proj_${1 + (n >> 2)}`, 10)
  t.equal(await code(begin('proj_99', 10)), 'too_many_uploads')
  t.equal(claimed(), 320)
  const [name = ''] = await readdir(home.tmp)
  await pieces.remove(name.split('.')[0] as string, owner)
  t.equal(claimed(), 310, 'what is dropped needs no space')
  t.equal(await code(begin('proj_99', 10)), 'done')
})

t.test('a full disk refuses the piece, and the upload goes on afterwards', async t => {
  const { pieces } = await piecesStage(t)
  const bytes = content(100)
  const { uploadId: id } = await pieces.begin(announced(bytes), owner)
  const failing = Readable.from(
    (async function* () {
      yield bytes.subarray(0, 20)
      await sleep(1)
      throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' })
    })()
  )
  t.equal(await code(pieces.append(id, pieceOf(0, failing), owner)), 'disk_full')
  await pieces.append(id, pieceOf(20, bytes.subarray(20)), owner)
  t.equal((await pieces.take(id, projectId, owner)).received.sha256, digest(bytes))
})

t.test(
  'an upload whose part another program removes or cuts off is lost, and the same content begins again',
  async t => {
    const { pieces, home } = await piecesStage(t)
    const bytes = content(100)
    for (const harm of [(path: string) => rm(path), (path: string) => truncate(path, 10)]) {
      for (const sent of [60, 100]) {
        const { uploadId: id } = await pieces.begin(announced(bytes), owner)
        await pieces.append(id, pieceOf(0, bytes.subarray(0, sent)), owner)
        await harm(join(home.tmp, `${id}.part`))
        const next =
          sent < 100 ? pieces.append(id, pieceOf(sent, bytes.subarray(sent)), owner) : pieces.take(id, projectId, owner)
        t.equal(await code(next), 'upload_unknown')
        t.match(await pieces.begin(announced(bytes), owner), { offset: 0 })
        const { uploadId: again } = await pieces.begin(announced(bytes), owner)
        await pieces.append(again, pieceOf(0, bytes), owner)
        await (await pieces.take(again, projectId, owner)).finish()
        t.strictSame(await readdir(home.tmp), [])
      }
    }
  }
)
