/* `svc serve --require-signatures`, as a process of its own: no token can switch it off, and signed pushes succeed. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  unlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Project } from '../../lib/model/project.js'
import { findProgram } from '../support/programs.js'
import { type ServeProcess, startServeProcess } from '../support/serve-process.js'
import { missing, sshKey } from '../support/signing-tools.js'
import { type Ended, svc } from '../support/svc.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

const skip = missing('ssh-keygen')

/** A directory with a build, keys, and the data directory of a server, which trusts `ana` in its file. */
interface Place {
  top: string
  site: string
  keys: string
  target: string
  signers: string
  ana: { path: string; publicPath: string; publicText: string }
}

function lay(t: Test): Place {
  const build = Object.fromEntries(
    Array.from({ length: 40 }, (_, at) => [`f${at}.bin`, randomBytes(6000).toString('hex')])
  )
  const top = t.testdir({ site: { build: { 'index.html': 'new', ...build } }, www: { 'old.html': 'old' } })
  const keys = join(top, 'keys')
  const ana = sshKey(keys, 'ana')
  const signers = join(top, 'server-home/keys/allowed_signers')
  mkdirSync(join(top, 'server-home/keys'), { recursive: true, mode: 0o700 })
  writeFileSync(signers, `ana@laptop namespaces="svc-deploy" ${ana.publicText}`)
  return { top, site: join(top, 'site'), keys, target: join(top, 'www'), signers, ana }
}

/** Creates a project whose scripts would leave a trace. */
async function traced(server: ServeProcess, { top, target }: Place): Promise<Project> {
  const shop = await server.createProject({ name: 'shop', deployPath: target })
  await server.changeProject(shop.id, { preDeployScript: `touch '${join(top, 'traced')}'` })
  return shop
}

function pushing({ site }: Place, server: ServeProcess, { id }: Pick<Project, 'id'>, token: string) {
  const env = { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: token }
  return (words: readonly string[] = [], more: Record<string, string> = {}): Promise<Ended> =>
    svc(['push', '--project', id, '--out', 'build', ...words], { cwd: site, env: { ...env, ...more } })
}

/** Nothing in the target has changed, and no script was run. */
function isUntouched(t: Test, { top, target }: Place, name: string): void {
  t.strictSame(readdirSync(target), ['old.html'], `${name}: the target is as it was`)
  t.equal(existsSync(join(top, 'traced')), false, `${name}: no script was run`)
}

/** Sends the form of the panel, `curl`, and every other client. */
async function sendForm(server: ServeProcess, projectId: string, headers: Record<string, string>) {
  const form = new FormData()
  form.set('projectId', projectId)
  form.set('file', new Blob([await zipOf({ 'index.html': 'evil' })]), 'archive.zip')
  const reply = await fetch(`${server.url}/api/deploy/upload`, { method: 'POST', headers, body: form })
  return { status: reply.status, body: (await reply.json()) as { code?: string; error?: string } }
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

/** Returns a new named token of an administrator. */
async function administrator(server: ServeProcess): Promise<string> {
  const name = `admin-${randomBytes(4).toString('hex')}`
  return (await server.api<{ token: string }>('POST', '/api/tokens', { name, role: 'admin' })).token
}

async function headersOfPanel(server: ServeProcess): Promise<Record<string, string>> {
  const reply = await fetch(`${server.url}/api/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token: server.adminToken, session: true, remember: false })
  })
  const { session } = (await reply.json()) as { session: { csrf: string } }
  const cookie = (reply.headers.get('set-cookie') ?? '').split(';')[0] as string
  return { cookie, 'x-svc-csrf': session.csrf, origin: server.url }
}

/** Sends unsigned pushes in every way. */
async function refusesUnsigned(t: Test, place: Place, server: ServeProcess, shop: Project): Promise<void> {
  // The admin token itself is for the panel: uploads do not take it.
  t.match(await sendForm(server, shop.id, bearer(server.adminToken)), { status: 401 })
  const ways: Record<string, Record<string, string>> = {
    'a token of an administrator': bearer(await administrator(server)),
    'the deploy token': bearer(shop.token),
    'the panel, as the administrator': await headersOfPanel(server)
  }
  for (const [name, headers] of Object.entries(ways)) {
    const reply = await sendForm(server, shop.id, headers)
    t.match(
      reply,
      { status: 403, body: { code: 'signature_missing', error: /^This server takes only releases/ } },
      name
    )
    isUntouched(t, place, name)
  }
  t.match(await pushing(place, server, shop, shop.token)(), { code: 1, stderr: /the server says that a release must/ })
  isUntouched(t, place, 'svc push')
  t.strictSame(await server.deployments(shop.id), [], 'nothing was queued')
}

t.test('svc serve --require-signatures: no token can switch it off', { skip }, async t => {
  const place = lay(t)
  const server = await startServeProcess(t, place.top, ['--require-signatures'])
  const shop = await traced(server, place)
  await refusesUnsigned(t, place, server, shop)

  // A thief of the admin token tries to weaken it.
  await server.changeProject(shop.id, { policy: { signatures: { require: 'off', threshold: 1, keys: null } } })
  for (const setting of ['require_signatures', 'requireSignatures', 'signatures']) {
    const reply = await fetch(`${server.url}/api/settings`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${server.adminToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ [setting]: 'off' })
    })
    t.equal(reply.status, 400, `there is no setting ${setting}`)
  }
  const mallory = sshKey(place.keys, 'mallory')
  await server.api('POST', '/api/signing-keys', { public: mallory.publicText, name: 'mallory' })
  await refusesUnsigned(t, place, server, shop)
  const byMallory = await pushing(place, server, shop, await administrator(server))(['--sign-key', mallory.path])
  t.match(byMallory, { code: 1, stderr: /is not a trusted key \(keys\/allowed_signers of the server\)/ })
  isUntouched(t, place, 'a key that only the table trusts')
  t.strictSame(await server.deployments(shop.id), [])

  const push = pushing(place, server, shop, shop.token)
  const whole = await push(['--sign-key', place.ana.path])
  t.match(whole, { code: 0, stderr: /Signed tree [0-9a-f]{4}…[0-9a-f]{2} \(41 files\) as ana@laptop SHA256:/ })
  t.equal(readFileSync(join(place.target, 'index.html'), 'utf8'), 'new')
  t.ok(existsSync(join(place.top, 'traced')), 'the script was run')
  writeFileSync(join(place.site, 'build/index.html'), 'newer')
  const changed = await push(['--sign-key', place.ana.path])
  t.match(changed, { code: 0, stderr: /other files from dep_/ }, 'an upload of changes')
  t.equal(readFileSync(join(place.target, 'index.html'), 'utf8'), 'newer')
  const [second, first] = await server.deployments(shop.id)
  t.match(second, { status: 'success', reusedFrom: first?.id, signedBy: [{ name: 'ana@laptop' }] })
  t.match(first, { status: 'success', reusedFrom: null, signedBy: [{ name: 'ana@laptop' }] })
  // A signature of other files opens nothing.
  await t.rejects(server.upload(shop, { 'index.html': 'evil' }), /signature_missing/)

  await server.stop()
  const without = await startServeProcess(t, place.top)
  await (await without.upload(shop, { 'index.html': 'evil' })).finished
  t.equal(
    readFileSync(join(place.target, 'index.html'), 'utf8'),
    'evil',
    'without it, the policy of the project applies'
  )
  await without.changeProject(shop.id, { policy: { signatures: { require: 'refuse' } } })
  const reply = await sendForm(without, shop.id, bearer(shop.token))
  t.match(reply, { status: 403, body: { code: 'signature_missing', error: /^Project shop takes only releases/ } })
})

t.test('SVC_REQUIRE_SIGNATURES=1, and a file of keys that is missing or broken', { skip }, async t => {
  const place = lay(t)
  const server = await startServeProcess(t, place.top, [], { SVC_REQUIRE_SIGNATURES: '1' })
  const shop = await traced(server, place)
  await refusesUnsigned(t, place, server, shop)
  const push = pushing(place, server, shop, shop.token)
  const good = readFileSync(place.signers, 'utf8')

  unlinkSync(place.signers)
  t.match(await push(['--sign-key', place.ana.path]), {
    code: 1,
    stderr: /is not a trusted key \(keys\/allowed_signers of the server\)/
  })
  t.match(await push(), { code: 1, stderr: /no key is trusted/ })
  isUntouched(t, place, 'without the file')
  const broken = {
    'no key': ['ana@laptop what is this', /allowed_signers.*line 1 of the allowed signers.*contains no key/],
    'an option that svc does not know': [
      `ana cert-authority ${place.ana.publicText}`,
      /the option .* is not supported/
    ],
    'a good line before a broken one': [`${good}ana2\n`, /line 2 of the allowed signers/]
  } as const
  for (const [name, [text, sentence]] of Object.entries(broken)) {
    writeFileSync(place.signers, text)
    const ended = await push(['--sign-key', place.ana.path])
    t.match(ended, { code: 1, stderr: sentence }, name)
    t.notMatch(ended.stderr, /try again/i, name)
    const reply = await sendForm(server, shop.id, bearer(shop.token))
    t.match(reply, { status: 503, body: { code: 'signers_unreadable', error: sentence } }, name)
    isUntouched(t, place, name)
  }
  if (process.getuid?.() !== 0) {
    writeFileSync(place.signers, good)
    chmodSync(place.signers, 0)
    t.match(await push(['--sign-key', place.ana.path]), { code: 1, stderr: /Cannot read .*allowed_signers/ })
    isUntouched(t, place, 'a file that cannot be read')
    chmodSync(place.signers, 0o600)
  }
  t.strictSame(await server.deployments(shop.id), [])
  writeFileSync(place.signers, good)
  t.match(await push(['--sign-key', place.ana.path]), { code: 0 }, 'the mended file counts at once')
  t.equal(readFileSync(join(place.target, 'index.html'), 'utf8'), 'new')
})

const noAgent = findProgram('ssh-agent') === null ? 'ssh-agent is not installed (apt-get install openssh-client)' : skip

t.test('a key that only a running ssh-agent has', { skip: noAgent }, async t => {
  const place = lay(t)
  // The path of a socket has at most 107 bytes.
  const directory = mkdtempSync(join(tmpdir(), 'svc-ssh-'))
  const socket = join(directory, 'agent')
  const agent: ChildProcess = spawn('ssh-agent', ['-D', '-a', socket], { stdio: 'ignore' })
  t.teardown(async () => {
    const ended = once(agent, 'close')
    agent.kill()
    await ended
    rmSync(directory, { recursive: true, force: true })
  })
  await until(() => existsSync(socket))
  const env = { SSH_AUTH_SOCK: socket }
  execFileSync('ssh-add', ['-q', place.ana.path], { env: { ...process.env, ...env }, stdio: 'ignore' })
  unlinkSync(place.ana.path)

  const server = await startServeProcess(t, place.top, ['--require-signatures'])
  const shop = await server.createProject({ name: 'shop', deployPath: place.target })
  const push = pushing(place, server, shop, shop.token)
  const without = await push(['--sign-key', place.ana.publicPath])
  t.match(without, { code: 1, stderr: /Cannot sign with .*ana\.pub": ssh-keygen says/ }, 'without the agent')
  t.strictSame(readdirSync(place.target), ['old.html'])
  t.match(await push(['--sign-key', place.ana.publicPath], env), { code: 0, stderr: /as ana@laptop SHA256:/ })
  t.equal(readFileSync(join(place.target, 'index.html'), 'utf8'), 'new')
  t.match(await server.deployments(shop.id), [{ signedBy: [{ name: 'ana@laptop' }] }])
})
