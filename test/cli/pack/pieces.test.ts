import t from 'tap'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { Refusal } from '../../../lib/base/errors.js'
import { type Call, type Client, createClient } from '../../../lib/cli/client/client.js'
import { sendPieces } from '../../../lib/cli/pack/pieces.js'
import type { OpenUpload } from '../../../lib/model/access.js'
import type { Project } from '../../../lib/model/project.js'
import { startCuttingRelay } from '../../support/cutting-relay.js'
import { createRandom } from '../../support/random.js'
import { type ServeProcess, startServeProcess } from '../../support/serve-process.js'
import { serveShop } from '../../support/shop.js'
import { stubClient } from '../../support/stub-client.js'
import { svc } from '../../support/svc.js'
import { randomCases, repetitions } from '../../support/thorough.js'

const { signal } = new AbortController()

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const clientOf = (serverUrl: string, { token }: Project) =>
  createClient({ serverUrl, token: { value: token, from: 'a test', origin: new URL(serverUrl).origin }, env: {} })

t.test('cut at random bytes, and with a server that is killed, the same archive arrives', async t => {
  const cwd = t.testdir({})
  let server: ServeProcess = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const relay = await startCuttingRelay(t, () => server.url)
  const random = createRandom(6)
  const path = join(cwd, 'archive')
  const client = clientOf(relay.url, shop)
  for (let round = 0; round < randomCases(2, 12); round++) {
    const bytes = randomBytes(200_000 + random.below(3_000_000))
    writeFileSync(path, bytes)
    let cuts = repetitions(5, 20)
    const arm = (): void => void (relay.left = cuts-- > 0 ? 1 + random.below(600_000) : Infinity)
    let kills = 0
    relay.onCut = async () => {
      if (random.below(2) === 0 && kills++ < repetitions(2, 5)) {
        await server.stop('SIGKILL')
        server = await startServeProcess(t, cwd)
      }
      arm()
    }
    arm()
    const archive = { path, bytes: bytes.length, sha256: sha256(bytes) }
    const sending = { client, projectId: shop.id, archive, onProgress: () => {}, note: () => {}, signal }
    const id = (await sendPieces({ ...sending, sleep: async () => {} })) as string
    relay.left = Infinity
    t.ok(bytes.equals(readFileSync(join(server.home, 'tmp', `${id}.part`))), `round ${round}: ${bytes.length} bytes`)
    await client.call('DELETE /api/uploads/:id', { id })
  }
})

/** A site whose archive has more than `bytes`. */
function layShop(cwd: string, bytes: number): string {
  const site = join(cwd, 'site')
  mkdirSync(site)
  for (let at = 0; at * 1e6 < bytes; at++) writeFileSync(join(site, `${at}.bin`), randomBytes(1e6))
  return site
}

t.test('a second push continues what the first began', async t => {
  const { cwd, server, shop } = await serveShop(t)
  const relay = await startCuttingRelay(t, () => server.url)
  const bytes = 36e6
  const site = layShop(cwd, bytes)
  const config = { projectId: shop.id, serverUrl: relay.url, outputDir: '.' }
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify(config))
  const env = { SVC_DEPLOY_TOKEN: shop.token }
  let pushing: ChildProcess | undefined
  relay.left = 25e6
  relay.onCut = async () => void pushing?.kill('SIGKILL')
  const first = await svc(['push'], { cwd: site, env, onOutput: (_, child) => (pushing = child) })
  t.equal(first.signal, 'SIGKILL')
  const again = await startCuttingRelay(t, () => server.url)
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ ...config, serverUrl: again.url }))
  const second = await svc(['push'], { cwd: site, env })
  t.match(second, { code: 0, stderr: /Continuing an upload of the same archive: the server has \d/ })
  t.ok(again.bytes < bytes - 15e6, `${again.bytes} bytes were sent`)
  t.equal(readFileSync(join(cwd, 'www/35.bin')).compare(readFileSync(join(site, '35.bin'))), 0)
  t.strictSame(readdirSync(join(server.home, 'tmp')), [])
})

t.test('an upload that breaks goes on in pieces, if the server takes them', async t => {
  const { cwd, server, shop } = await serveShop(t)
  const relay = await startCuttingRelay(t, () => server.url)
  const site = layShop(cwd, 3e6)
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: shop.id, serverUrl: relay.url }))
  let cuts = 0
  relay.left = 1e6
  relay.onCut = async () => void (relay.left = ++cuts < 3 ? 800_000 : Infinity)
  const ended = await svc(['push', '--out', '.'], { cwd: site, env: { SVC_DEPLOY_TOKEN: shop.token } })
  t.match(ended, { code: 0, stderr: /Trying again in/ })
  t.equal(cuts, 3)
  t.ok(relay.bytes < 1e6 + 3e6 + 300_000, `${relay.bytes} bytes for 3 MB: only the first attempt was lost`)
})

/** Sends to a server that answers as given. Returns the lengths of the pieces. */
async function send(answers: Array<Refusal | 'ok'>, bytes = 40e6) {
  const lengths: number[] = []
  const waits: number[] = []
  let upload: OpenUpload = { uploadId: 'upl_1', offset: 0, bytes, expiresAt: '', pieceBytes: 983_040 }
  let begun = 0
  const append = async ({ body }: Call): Promise<OpenUpload> => {
    const { bytes } = body as { bytes: number }
    lengths.push(bytes)
    const answer = answers.shift() ?? 'ok'
    if (answer !== 'ok') throw answer
    return (upload = { ...upload, offset: upload.offset + bytes })
  }
  const begin = (): OpenUpload => (upload = { ...upload, uploadId: `upl_${++begun}`, offset: 0 })
  const client = stubClient(
    { 'POST /api/uploads': begin, 'GET /api/uploads/:id': () => upload },
    { json: append as Client['json'] }
  )
  const archive = { path: '', bytes, sha256: '' }
  const sleep = async (ms: number): Promise<void> => void waits.push(ms)
  const sending = { client, projectId: 'p', archive, onProgress() {}, note() {}, signal, sleep }
  const result = await sendPieces(sending).catch((error: Refusal) => error.code)
  return { result, lengths, waits }
}

const tooLarge = new Refusal('too_large', 'too_large', 'A proxy')
const broken = new Refusal('unavailable', 'unreachable', 'reset', {
  cause: Object.assign(new Error(), { code: 'ECONNRESET' })
})
const mega = 983_040

t.test('pieces double up to 16 MiB, and halve where a proxy refuses them', async t => {
  const good = await send([])
  t.strictSame(good.lengths.slice(0, 5), [mega, 2 * mega, 4 * mega, 8 * mega, 16 * mega])
  const limited = await send(['ok', tooLarge, 'ok', 'ok'], 5e6)
  t.strictSame(limited.lengths.slice(0, 4), [mega, 2 * mega, mega, mega], 'and never grow beyond that again')
  const small = await send(Array.from({ length: 20 }, () => tooLarge))
  t.strictSame([small.result, small.lengths.at(-1)], ['too_large', mega / 8], 'a proxy that takes nothing is named')
})

t.test('gives up after eight attempts in a row that bring nothing', async t => {
  const down = await send(Array.from({ length: 20 }, () => broken))
  t.strictSame([down.result, down.lengths.length], ['unreachable', 9])
  t.equal(down.waits.length, 8)
  for (const [at, ms] of down.waits.entries()) {
    const longest = Math.min(500 * 2 ** at, 30_000)
    t.ok(ms >= longest / 2 && ms <= longest, `wait ${at}: ${ms}`)
  }
  const shaky = await send(
    Array.from({ length: 60 }, (_, at) => (at % 6 === 5 ? 'ok' : broken)),
    9e6
  )
  t.equal(shaky.result, 'upl_1', 'what arrives begins a new count')
})

t.test('begins again where the upload was lost, and stops at what waiting does not cure', async t => {
  const unknown = new Refusal('not_found', 'upload_unknown', 'gone')
  t.equal((await send(['ok', unknown])).result, 'upl_2')
  t.equal((await send(Array.from({ length: 9 }, () => unknown))).result, 'upload_unknown')
  for (const code of ['token_revoked', 'token_expired', 'disk_full', 'piece_too_long'])
    t.match(await send([new Refusal('invalid', code, 'no')]), { result: code, lengths: [mega] })
  const tls = new Refusal('unavailable', 'unreachable', 'tls', {
    cause: Object.assign(new Error(), { code: 'CERT_HAS_EXPIRED' })
  })
  t.match(await send([tls]), { result: 'unreachable', waits: [] })
})

t.test('an old server, or one with too many uploads, gets the archive in one request', async t => {
  const archive = { path: '', bytes: 1, sha256: '' }
  for (const code of ['not_found', 'http_404', 'too_many_uploads']) {
    const begin = (): never => {
      throw new Refusal('not_found', code, 'no')
    }
    const client = stubClient({ 'POST /api/uploads': begin })
    t.equal(await sendPieces({ client, projectId: 'p', archive, onProgress() {}, note() {}, signal }), null)
  }
})
