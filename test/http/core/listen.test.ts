import t from 'tap'
import type { Test } from 'tap'
import { type AddressInfo, createServer } from 'node:net'
import { once } from 'node:events'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { createServer as createHttpServer, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json as readJson } from 'node:stream/consumers'
import { checkAddress, checkSocketPath, listenError, listenOnSocket } from '../../../lib/http/core/listen.js'
import { HttpServer } from '../../../lib/http/core/server.js'
import { json } from '../../../lib/http/core/route.js'
import { maxSocketPathBytes } from '../../../lib/base/socket-probe.js'

t.test('releases the address after checkAddress', async t => {
  await checkAddress({ host: '127.0.0.1', port: 0 })
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await t.rejects(checkAddress({ host: '127.0.0.1', port }), {
    kind: 'conflict',
    code: 'address_in_use',
    field: '--port'
  })
  server.close()
  await once(server, 'close')
  await checkAddress({ host: '127.0.0.1', port })
  await checkAddress({ host: '127.0.0.1', port })
})

t.test("maps the system's errors to the option that caused them", async t => {
  const rows = [
    ['EADDRINUSE', 'address_in_use', '--port'],
    ['EACCES', 'invalid_address', '--port'],
    ['EADDRNOTAVAIL', 'invalid_address', '--host'],
    ['EAFNOSUPPORT', 'invalid_address', '--host'],
    ['EINVAL', 'invalid_address', '--host'],
    ['EAI_AGAIN', 'invalid_address', '--host']
  ] as const
  for (const [error, code, field] of rows) {
    const cause = Object.assign(new Error(error), { code: error })
    t.match(listenError(cause, { host: '::1', port: 80 }), {
      name: 'Refusal',
      code,
      field,
      cause,
      message: /^Cannot listen on \[::1\]:80: ./
    })
  }
  const other = Object.assign(new Error('too many files'), { code: 'EMFILE' })
  t.equal(listenError(other, { host: '::1', port: 80 }), other, 'the error is returned unchanged')
})

/** Creates a directory whose path is short enough for a socket; those of tap are not always. */
async function directoryOf(t: Test): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

function start(t: Test, trusted: string[] = ['127.0.0.0/8']): HttpServer {
  const server = new HttpServer({
    routes: [{ method: 'GET', path: '/api/whoami', auth: 'public', handle: ({ client }) => json(client) }],
    base: '',
    authorize: () => ({}),
    trustedProxies: () => trusted,
    log() {}
  })
  t.teardown(() => server.close({ graceMs: 0 }))
  return server
}

async function whoami(socketPath: string, headers: Record<string, string> = {}): Promise<unknown> {
  const asking = request({
    socketPath,
    path: '/api/whoami',
    headers: { host: 'localhost', ...headers },
    agent: false
  }).end()
  const [reply] = (await once(asking, 'response')) as [IncomingMessage]
  return readJson(reply)
}

t.test('answers at the path with the given mode, and removes the file when it stops', async t => {
  const directory = await directoryOf(t)
  const path = join(directory, 'svc.sock')
  const server = start(t)
  await server.listenOnSocket({ path, mode: 0o660 })
  t.equal(statSync(path).mode & 0o777, 0o660)
  t.same(readdirSync(directory), ['svc.sock'], 'nothing else remains')
  t.equal(server.address(), undefined)
  t.match(await whoami(path), { address: '127.0.0.1', local: false })
  await server.close({ graceMs: 0 })
  t.same(readdirSync(directory), [])
})

t.test('counts its peer as 127.0.0.1, and trusts its headers if that is a trusted proxy', async t => {
  const path = join(await directoryOf(t), 's')
  const server = start(t)
  await server.listenOnSocket({ path, mode: 0o600 })
  t.match(await whoami(path, { 'x-forwarded-for': '203.0.113.9' }), {
    address: '203.0.113.9',
    viaProxy: true,
    local: false
  })
  const other = `${path}2`
  await start(t, ['10.0.0.1']).listenOnSocket({ path: other, mode: 0o600 })
  t.match(await whoami(other, { 'x-forwarded-for': '203.0.113.9' }), {
    address: '127.0.0.1',
    viaProxy: false,
    local: false
  })
})

t.test('replaces the file of a killed server', async t => {
  const path = join(await directoryOf(t), 'svc.sock')
  const program = `require('net').createServer().listen(${JSON.stringify(path)}, () => console.log('listens'))`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'close')
  t.ok(existsSync(path))
  await start(t).listenOnSocket({ path, mode: 0o660 })
  t.match(await whoami(path), { address: '127.0.0.1' })
})

t.test('refuses a second server, and the first one continues', async t => {
  const path = join(await directoryOf(t), 'svc.sock')
  await start(t).listenOnSocket({ path, mode: 0o660 })
  const refused = {
    kind: 'conflict',
    code: 'address_in_use',
    field: '--socket',
    message: /svc\.sock": address already in use\./
  }
  await t.rejects(start(t).listenOnSocket({ path, mode: 0o660 }), refused)
  t.match(await whoami(path), { address: '127.0.0.1' })
})

t.test('keeps any other file at the path', async t => {
  const directory = await directoryOf(t)
  writeFileSync(join(directory, 'file'), 'precious')
  mkdirSync(join(directory, 'directory'))
  symlinkSync('nowhere', join(directory, 'link'))
  for (const [name, what] of [
    ['file', 'a file'],
    ['directory', 'a directory'],
    ['link', 'a symbolic link']
  ] as const) {
    await t.rejects(start(t).listenOnSocket({ path: join(directory, name), mode: 0o660 }), {
      code: 'path_taken',
      message: new RegExp(`/${name}": ${what} already exists there\\. Choose another path`)
    })
  }
  t.equal(readFileSync(join(directory, 'file'), 'utf8'), 'precious')
  t.same(readdirSync(directory).sort(), ['directory', 'file', 'link'])
})

t.test('refuses a path that no socket can have', async t => {
  const directory = await directoryOf(t)
  writeFileSync(join(directory, 'file'), '')
  const longest = join(directory, 'x'.repeat(maxSocketPathBytes - directory.length - 1))
  await start(t).listenOnSocket({ path: longest, mode: 0o660 })
  t.match(await whoami(longest), { address: '127.0.0.1' }, 'the longest path is accepted')
  const cases: Array<[path: string, sentence: RegExp]> = [
    [`${longest}x`, new RegExp(`the path has ${maxSocketPathBytes + 1} bytes, the maximum is ${maxSocketPathBytes}`)],
    [join(directory, 'none/svc.sock'), /no such file or directory\. Create the directory ".*none" first/],
    [join(directory, 'file/svc.sock'), /file" is not a directory/]
  ]
  for (const [path, message] of cases) {
    const refused = { code: 'invalid_address', field: '--socket', message }
    await t.rejects(start(t).listenOnSocket({ path, mode: 0o660 }), refused)
    await t.rejects(checkSocketPath(path), refused, 'also before anything is bound')
  }
})

t.test('keeps a file that belongs to another server now', async t => {
  const path = join(await directoryOf(t), 'svc.sock')
  const server = createHttpServer()
  const removeOwn = await listenOnSocket(server, { path, mode: 0o660 })
  t.teardown(() => void server.close())
  rmSync(path)
  await start(t).listenOnSocket({ path, mode: 0o660 })
  await removeOwn()
  t.match(await whoami(path), { address: '127.0.0.1' })
})

t.test(
  'removes what a killed server left before its socket had its name, but no live socket and no other file',
  async t => {
    const directory = await directoryOf(t)
    const program = `require('net').createServer().listen(${JSON.stringify(join(directory, '.0a1b2c'))}, () => process.kill(process.pid, 'SIGKILL'))`
    await once(spawn(process.execPath, ['-e', program]), 'exit')
    t.ok(existsSync(join(directory, '.0a1b2c')))
    writeFileSync(join(directory, '.3d4e5f'), '')
    const other = createHttpServer()
    t.teardown(() => other.close())
    await new Promise<void>(resolve => other.listen(join(directory, '.abcdef'), resolve))
    const server = createHttpServer()
    t.teardown(() => server.close())
    await listenOnSocket(server, { path: join(directory, 's'), mode: 0o660 })
    t.same(readdirSync(directory).sort(), ['.3d4e5f', '.abcdef', 's'])
  }
)
