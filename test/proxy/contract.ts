import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect as connectHttp2, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2'
import { request } from 'node:https'
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import type { Project } from '../../lib/model/project.js'
import { makeSigned } from '../support/certificates.js'
import { createClient, formOf, type Client } from '../support/client.js'
import { startServeProcess } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { connectTerminal, noPty, openTerminal } from '../support/web-terminal.js'
import { zipOf } from '../support/zip.js'
import { phrase } from './recipes.js'
import { until } from '../support/until.js'
import { isThorough } from '../support/thorough.js'

/*
 * What svc promises behind a proxy, of whatever make. Nothing here is measured in time: that something is not held back
 * is seen by what can only happen once it has arrived.
 */
export interface ProxyOptions {
  /** For the proxy's own files. */
  directory: string
  /** An address without path, or the path of a socket. */
  upstream: string
  /** As `normaliseBase` gives it. */
  base: string
  files: { cert: string; key: string }
}

/** In the recipes of docs/proxies.md. */
export const publicName = 'deploy.example.org'
/** That the proxy serves too, and svc does not. */
export const foreignName = 'other.example.org'

export interface RunningProxy {
  /** Without the base. */
  url: string
  pid: number
  /** Where it would keep what it holds back of uploads, if it is told. */
  spool: string | null
}

type StartProxy = (t: Test, options: ProxyOptions) => Promise<RunningProxy>

/** At the root over an address, and below a prefix over a socket; `make soak` has the prefix over an address, too. */
export function keepsPromises(t: Test, name: string, start: StartProxy, skip: string | false): void {
  for (const { base, isSocket } of [
    { base: '', isSocket: false },
    ...(isThorough ? [{ base: '/tools/svc', isSocket: false }] : []),
    { base: '/tools/svc', isSocket: true }
  ]) {
    const what = `behind ${name}, ${base === '' ? 'at the root' : `under ${base}`}${isSocket ? ', over a socket' : ''}`
    t.test(what, { skip }, async t => {
      const stage = await openStage(t, start, { base, isSocket })
      await t.test('HTTP/2, and HTTP/1.1', async t => protocols(t, stage))
      await t.test('the public name is answered, and no other', async t => hostNames(t, stage))
      await t.test('svc push deploys through it', async t => push(t, stage))
      await t.test('output arrives while the script runs', async t => output(t, stage))
      await t.test('an upload arrives while it is sent', async t => upload(t, stage))
      await t.test('the audit log has the address of the client, not the one it claims', async t => addresses(t, stage))
      await t.test(
        'a terminal opens for pages of the address the browser uses, and for no others',
        { skip: noPty },
        async t => terminal(t, stage)
      )
      await t.test('a session is for this address and encrypted connections only', async t => session(t, stage))
      await t.test('headers that only a proxy may write do nothing for a client', async t => forged(t, stage))
      await t.test('the panel comes from below the prefix', async t => panel(t, stage))
      if (base === '')
        await t.test('200 MB pass, and so does the refusal of what is too large', async t => large(t, stage))
    })
  }
}

interface Stage {
  base: string
  /** With the base. */
  url: string
  proxy: RunningProxy
  ca: string
  caFile: string
  directory: string
  /** The server's data directory. */
  home: string
  client: Client
  token: string
  project: Project
  target: string
}

async function openStage(
  t: Test,
  start: StartProxy,
  { base, isSocket }: { base: string; isSocket: boolean }
): Promise<Stage> {
  const { authority, server: identity } = makeSigned()
  // Short enough for the path of a socket.
  const directory = mkdtempSync(join(tmpdir(), 'svc-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const files = { cert: join(directory, 'fullchain.pem'), key: join(directory, 'privkey.pem') }
  writeFileSync(files.cert, identity.cert)
  writeFileSync(files.key, identity.key, { mode: 0o600 })
  const caFile = join(directory, 'ca.pem')
  writeFileSync(caFile, authority.cert)
  const socket = join(directory, 'svc.sock')
  const server = await startServeProcess(
    t,
    directory,
    [...(base === '' ? [] : ['--base', base]), ...(isSocket ? ['--socket', socket] : [])],
    { SVC_PUBLIC_URL: publicUrl(base) }
  )
  const upstream = isSocket ? socket : new URL(server.url).origin
  const proxy = await start(t, { directory: join(directory, 'proxy'), upstream, base, files })
  const url = `${proxy.url}${base}`
  const client = createClient(() => url, server.adminToken, { ca: authority.cert })
  const target = join(directory, 'www')
  const { body } = await client.post('/api/projects', { name: 'Storefront', deployPath: target })
  return {
    base,
    url,
    proxy,
    ca: authority.cert,
    caFile,
    directory,
    home: server.home,
    client,
    token: server.adminToken,
    project: body.project,
    target
  }
}

/** As docs/proxies.md starts svc, at the root or below a prefix. */
function publicUrl(base: string): string {
  const words = base === '' ? phrase(`${publicName} svc serve`) : phrase(`svc serve --base ${base}`)
  return /^SVC_PUBLIC_URL=(\S+) svc serve/.exec(words)?.[1] as string
}

async function openHttp2(t: Test, { url, ca }: Stage): Promise<ClientHttp2Session> {
  const session = connectHttp2(new URL(url).origin, { ca })
  t.teardown(() => session.destroy())
  await once(session, 'connect')
  return session
}

async function statusOf(stream: ClientHttp2Stream): Promise<number> {
  const [headers] = (await once(stream, 'response')) as [Record<string, unknown>]
  return Number(headers[':status'])
}

async function protocols(t: Test, stage: Stage): Promise<void> {
  const session = await openHttp2(t, stage)
  t.equal(session.alpnProtocol, 'h2')
  const asking = session.request({ ':path': `${stage.base}/api/health` })
  t.equal(await statusOf(asking), 200)
  asking.resume()
  t.equal((await stage.client.get('/api/health')).status, 200)
}

async function hostNames(t: Test, stage: Stage): Promise<void> {
  const session = await openHttp2(t, stage)
  const path = `${stage.base}/api/health`
  for (const [host, status] of [
    [publicName, 200],
    [foreignName, 421]
  ] as const) {
    const authority = `${host}:${new URL(stage.url).port}`
    const asking = session.request({ ':path': path, ':authority': authority })
    t.equal(await statusOf(asking), status, `${host}, HTTP/2`)
    asking.resume()
    const asking1 = request(`${stage.proxy.url}${path}`, {
      ca: stage.ca,
      agent: false,
      servername: 'localhost',
      headers: { host: authority }
    }).end()
    const [reply] = (await once(asking1, 'response')) as [IncomingMessage]
    t.equal(reply.statusCode, status, `${host}, HTTP/1.1`)
    const body = await text(reply)
    if (status === 421) t.match(body, /"code":"misdirected_host"/, 'svc itself refuses')
  }
}

async function push(t: Test, { directory, url, project, target, caFile }: Stage): Promise<void> {
  const site = join(directory, 'site')
  mkdirSync(join(site, 'dist'), { recursive: true })
  writeFileSync(join(site, 'dist/index.html'), '<h1>hello</h1>')
  const env = { SVC_DEPLOY_TOKEN: project.token, NODE_EXTRA_CA_CERTS: caFile }
  t.match(await svc(['init', '--project', project.id, '--server', url, '--out', 'dist'], { cwd: site, env }), {
    code: 0
  })
  // The script waits until its first line has been printed here.
  const seen = join(directory, 'seen')
  const pushed = await svc(['push', '--post', `echo one; ${waitFor(seen)}; echo two`], {
    cwd: site,
    env,
    onOutput: text => void (/^one$/m.test(text) && writeFileSync(seen, ''))
  })
  t.match(pushed, { code: 0, stdout: /one\ntwo\n/ }, pushed.stderr)
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), '<h1>hello</h1>')
}

/** Returns a script line that waits for a file, and fails after a minute without it. */
function waitFor(file: string): string {
  return `i=0; until [ -e '${file}' ]; do i=$((i+1)); [ $i -lt 600 ] || exit 1; sleep 0.1; done`
}

async function output(t: Test, stage: Stage): Promise<void> {
  const { base, directory, project, token } = stage
  const session = await openHttp2(t, stage)
  const seen = join(directory, 'seen-by-both')
  const { contentType, body } = formOf([
    ['projectId', project.id],
    ['postDeploy', `echo one; ${waitFor(seen)}; echo two`],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'a.txt': 'a' }) }]
  ])
  const headers = {
    ':method': 'POST',
    ':path': `${base}/api/deploy/upload`,
    'content-type': contentType,
    authorization: `Bearer ${project.token}`
  }
  const sending = session.request(headers)
  sending.end(body)
  const [answer] = (await once(sending, 'response')) as [Record<string, string>]
  t.equal(Number(answer[':status']), 200)
  const lines = reading(sending)
  await lines.until(/one/)
  const path = `${base}/api/logs/${answer['x-svc-deploy-id']}/stream`
  const events = reading(session.request({ ':path': path, authorization: `Bearer ${token}` }))
  await events.until(/one/)
  writeFileSync(seen, '')
  t.match(await lines.rest(), /two[^]*"status":"success"/, 'NDJSON')
  t.match(await events.rest(), /two[^]*"status":"success"/, 'SSE')
}

function reading(stream: ClientHttp2Stream): { until(pattern: RegExp): Promise<void>; rest(): Promise<string> } {
  let text = ''
  stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  const ended = once(stream, 'end')
  return {
    async until(pattern) {
      while (!pattern.test(text))
        await Promise.race([
          once(stream, 'data'),
          ended.then(() => {
            throw new Error(`It ended without ${pattern}: ${text}`)
          })
        ])
    },
    async rest() {
      await ended
      return text
    }
  }
}

const megabyte = 1024 * 1024
/** More than any buffer on the way. */
const sentFirst = 24 * megabyte
const mustArrive = 16 * megabyte

async function upload(t: Test, stage: Stage): Promise<void> {
  for (const open of [openUpload1, openUpload2]) {
    const { home, project, proxy } = stage
    const head =
      '--b\r\nContent-Disposition: form-data; name="projectId"\r\n\r\n' +
      `${project.id}\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\n`
    const rest = Buffer.concat([Buffer.alloc(1000), Buffer.from('\r\n--b--\r\n')])
    const headers = {
      authorization: `Bearer ${project.token}`,
      'content-type': 'multipart/form-data; boundary=b',
      'content-length': head.length + sentFirst + rest.length
    }
    const { sending, answer } = await open(t, stage, headers)
    sending.write(head)
    sending.write(Buffer.alloc(sentFirst))
    const tmp = join(home, 'tmp')
    const arrived = (): number =>
      Math.max(0, ...readdirSync(tmp).map(name => statSync(join(tmp, name), { throwIfNoEntry: false })?.size ?? 0))
    await until(() => arrived() >= mustArrive)
    t.ok(arrived() <= sentFirst, 'the rest has not been sent yet')
    if (proxy.spool !== null) t.same(readdirSync(proxy.spool), [], 'and nothing lies at the proxy')
    sending.end(rest)
    t.match(await answer, /"status":"failed"/, `zeros are no zip (${open.name})`)
  }
}

interface Upload {
  sending: Writable
  answer: Promise<string>
}

/** As svc push sends it. */
async function openUpload1(_t: Test, { url, ca }: Stage, headers: OutgoingHttpHeaders): Promise<Upload> {
  const sending = request(`${url}/api/deploy/upload`, { method: 'POST', ca, agent: false, headers })
  const answer = once(sending, 'response').then(([reply]) => text(reply as IncomingMessage))
  return { sending, answer }
}

/** As browsers do. */
async function openUpload2(t: Test, stage: Stage, headers: OutgoingHttpHeaders): Promise<Upload> {
  const session = await openHttp2(t, stage)
  const sending = session.request({ ':method': 'POST', ':path': `${stage.base}/api/deploy/upload`, ...headers })
  return { sending, answer: text(sending) }
}

async function addresses(t: Test, { url, ca, client }: Stage): Promise<void> {
  const other = createClient(() => url, null, {
    ca,
    localAddress: '127.0.0.9',
    lookup: (_name, options, found) =>
      found(null, options.all ? [{ address: '127.0.0.1', family: 4 }] : ('127.0.0.1' as never), 4)
  })
  const claimed = { 'x-forwarded-for': '203.0.113.9', 'x-real-ip': '203.0.113.10', forwarded: 'for=203.0.113.11' }
  t.equal((await other.post('/api/auth/login', { token: 'wrong-one' }, claimed)).status, 401)
  t.match((await client.get('/api/audit?limit=1')).body.items, [
    { action: 'auth.login_failed', ok: false, ip: '127.0.0.9' }
  ])
}

async function terminal(t: Test, { url, ca, client, proxy }: Stage): Promise<void> {
  const opened = await openTerminal({ url, client }, { ca, headers: { origin: proxy.url } })
  opened.type('echo thr""ough\n')
  await opened.sees(/through\r\n/)
  opened.raw.close()
  await opened.closed()
  const foreign = await connectTerminal({ url, client }, { ca, headers: { origin: 'https://localhost' } })
  t.equal(foreign.status, 403)
  foreign.socket.destroy()
}

async function session(t: Test, { base, url, ca, token, proxy }: Stage): Promise<void> {
  const anyone = createClient(() => url, null, { ca })
  const signedIn = await anyone.post('/api/auth/login', { token, session: true })
  const cookie = [signedIn.headers['set-cookie']].flat().join()
  t.match(cookie, /^__Secure-svc_session_\w+=[\w-]+; /)
  t.match(cookie, new RegExp(`; Path=${base}/; .*HttpOnly; SameSite=Strict; Secure$`))
  const own = { cookie: cookie.split(';')[0] as string, origin: proxy.url }
  const answer = await anyone.get('/api/auth/session', own)
  t.equal(answer.headers['content-security-policy'], "default-src 'none'; sandbox")
  const change = (headers: object) => anyone.post('/api/tickets', { purpose: 'terminal' }, { ...own, ...headers })
  t.match(await change({}), { status: 403, body: { code: 'wrong_csrf' } })
  t.not((await change({ 'x-svc-csrf': answer.body.csrf })).body.code, 'wrong_csrf')
  const foreign = { 'x-svc-csrf': answer.body.csrf, 'sec-fetch-site': 'same-site' }
  t.match(await change(foreign), { status: 403, body: { code: 'foreign_origin' } }, 'another port of this host')
  t.match((await anyone.get('/')).headers['content-security-policy'], /frame-ancestors 'none'/)
}

async function forged(t: Test, stage: Stage): Promise<void> {
  const { url, ca, client, token } = stage
  const anyone = createClient(() => url, null, { ca })
  const evil = 'evil.example'
  const headers = { 'x-forwarded-proto': 'http', 'x-forwarded-host': evil, forwarded: `host=${evil};proto=http` }
  const signedIn = await anyone.post('/api/auth/login', { token, session: true }, headers)
  t.match([signedIn.headers['set-cookie']].flat().join(), /^__Secure-.*; Secure$/, 'the cookie stays Secure')
  const foreign = await connectTerminal({ url, client }, { ca, headers: { ...headers, origin: `https://${evil}` } })
  t.equal(foreign.status, 403, 'the origin of a terminal is compared with the real host')
  foreign.socket.destroy()
  // RFC 9110 §7.6.1: a proxy removes what `Connection` names. It must not be what the proxy itself writes.
  const removing = {
    connection: 'close, x-forwarded-for, x-forwarded-proto, x-forwarded-host',
    'x-forwarded-for': '203.0.113.9'
  }
  t.equal((await anyone.post('/api/auth/login', { token: 'wrong-two' }, removing)).status, 401)
  const [failure] = (await client.get('/api/audit?limit=1')).body.items
  t.match(failure, { action: 'auth.login_failed', ip: '127.0.0.1' })
  t.notMatch(JSON.stringify(failure), '203.0.113.9')
  const again = await anyone.post('/api/auth/login', { token, session: true }, { connection: removing.connection })
  t.match([again.headers['set-cookie']].flat().join(), /^__Secure-.*; Secure$/)
}

async function panel(t: Test, { base, url, ca, client }: Stage): Promise<void> {
  const page = (await client.get('/')).text
  t.match(page, `<base href="${base}/">`)
  const script = /<script[^>]* src="([^"]+)"/.exec(page)?.[1] as string
  t.equal((await client.get(`/${script}`)).status, 200)
  if (base === '') return
  const moved = await client.get('')
  t.ok([301, 308].includes(moved.status), `${moved.status}`)
  t.equal(new URL(moved.headers.location as string, url).href, `${url}/`, 'it stays with https, the name and the port')
  const outside = createClient(() => new URL(url).origin, null, { ca })
  t.equal((await outside.get('/api/health')).body, undefined, 'svc answers nothing outside the prefix')
}

async function large(t: Test, { directory, url, project, client, caFile }: Stage): Promise<void> {
  const site = join(directory, 'large')
  mkdirSync(join(site, 'dist'), { recursive: true })
  writeFileSync(join(site, 'dist/noise.png'), Buffer.alloc(200 * megabyte, 'noise'))
  const words = ['push', '--project', project.id, '--server', url, '--out', 'dist']
  const push = () => svc(words, { cwd: site, env: { SVC_DEPLOY_TOKEN: project.token, NODE_EXTRA_CA_CERTS: caFile } })
  t.match(await push(), { code: 0 })
  await client.put('/api/settings', { max_upload_size: '5' })
  t.match(await push(), { code: 1, stderr: /max_upload_size/ })
}
