import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'
import { createStatic, createBuilds } from '../../../lib/http/static/static.js'
import { sendRaw, startServer } from '../../support/http-server.js'
import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { until } from '../../support/until.js'

const script = 'export const answer = 42\n'.repeat(200)

t.test('serves the panel', async t => {
  const root = t.testdir({
    secret: 'secret',
    www: {
      'index.html': '<!doctype html><base href="/"><title>svc</title>',
      'main.js': script,
      'small.js': 'export {}',
      'logo.png': Buffer.alloc(5000),
      'logo.svg': '<svg/>',
      '.hidden': 'hidden',
      pages: { 'a.css': 'a{}' }
    }
  })
  const directory = join(root, 'www')
  await writeFile(join(directory, 'huge.js'), Buffer.alloc(3 * 1024 * 1024, 'x'))
  const { port, url } = await startServer(t, [], {
    base: '/a',
    fallback: createStatic(directory, { base: '/a', except: ['/api'] })
  })
  /** Without the decompression that fetch does by itself. */
  const get = async (path: string, headers = '', method = 'GET') => {
    const reply = await sendRaw(port, `${method} ${path} HTTP/1.1\r\nHost: a\r\n${headers}Connection: close\r\n\r\n`)
    const header = (name: string) => new RegExp(`^${name}: (.*)$`, 'im').exec(reply.head)?.[1]?.trim()
    return { ...reply, header }
  }

  const page = await get('/a/')
  t.match(page.body, '<base href="/a/">')
  t.match(page.header('content-type'), 'text/html; charset=utf-8')
  t.equal(
    page.header('content-security-policy'),
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
      "font-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
  )
  const publicUrl = 'https://deploy.example.org/a'
  const named = await createStatic(directory, { base: '/a', publicUrl })({ path: '/', headers: {}, method: 'GET' })
  t.match(
    named?.kind === 'bytes' && named.body.toString(),
    `<base href="/a/"><meta name="svc-public-url" content="${publicUrl}"><title>`
  )
  t.equal(page.header('x-content-type-options'), 'nosniff')
  t.equal(page.header('referrer-policy'), 'no-referrer')
  t.equal((await get('/a/projects/proj_1', 'Accept: text/html\r\n')).body, page.body, 'a path of the panel')
  t.equal((await get('/a/projects/proj_1', 'Accept: application/json\r\n')).status, 404)
  t.equal((await get('/a/missing.js', 'Accept: text/html\r\n')).status, 404)
  t.equal((await get('/a/api/x', 'Accept: text/html\r\n')).status, 404, 'the API never answers with a page')
  t.equal((await get('/a/pages/a.css')).header('content-type'), 'text/css; charset=utf-8')
  t.equal((await get('/a/pages', 'Accept: */*\r\n')).status, 404)

  const plain = await get('/a/main.js')
  t.equal(plain.body, script)
  t.equal(plain.header('content-encoding'), undefined)
  t.equal(plain.header('vary'), 'accept-encoding')
  t.equal(plain.header('cache-control'), 'no-cache')
  t.equal(plain.header('x-content-type-options'), 'nosniff')
  t.equal(plain.header('content-security-policy'), undefined, 'the policy of the page applies')
  t.equal(
    (await get('/a/logo.svg')).header('content-security-policy'),
    page.header('content-security-policy'),
    '… or that of a drawing, opened alone'
  )
  const brotli = await get('/a/main.js', 'Accept-Encoding: gzip, deflate, br\r\n')
  t.equal(brotli.header('content-encoding'), 'br')
  t.equal(brotliDecompressSync(Buffer.from(brotli.body, 'latin1')).toString(), script)
  const gzip = await get('/a/main.js', 'Accept-Encoding: gzip;q=0.5, br;q=0\r\n')
  t.equal(gzip.header('content-encoding'), 'gzip')
  t.equal(gunzipSync(Buffer.from(gzip.body, 'latin1')).toString(), script)
  t.not(brotli.header('etag'), plain.header('etag'), 'each coding has its own tag')
  const known = await get('/a/main.js', `Accept-Encoding: br\r\nIf-None-Match: ${brotli.header('etag')}\r\n`)
  t.equal(known.status, 304)
  t.equal(known.header('etag'), brotli.header('etag'))
  t.equal(known.body, '')
  t.equal((await get('/a/small.js', 'Accept-Encoding: br\r\n')).header('content-encoding'), undefined)
  t.equal((await get('/a/logo.png', 'Accept-Encoding: br\r\n')).header('content-encoding'), undefined)

  const part = await get('/a/main.js', 'Range: bytes=0-5\r\n')
  t.match(part, { status: 206, body: 'export' })
  const head = await get('/a/main.js', '', 'HEAD')
  t.match(head, { status: 200, body: '' })
  t.equal(head.header('content-length'), String(script.length))
  t.equal((await get('/a/main.js', '', 'POST')).status, 404)
  const huge = await get('/a/huge.js')
  t.equal(huge.body.length, 3 * 1024 * 1024)
  t.match(huge.header('content-security-policy'), "script-src 'self'")

  for (const path of [
    '/a/../secret',
    '/a/%2e%2e/secret',
    '/a/..%2fsecret',
    '/a/pages/..%2f..%2fsecret',
    '/a/..%5csecret',
    '/a/.hidden',
    '/a//etc/passwd',
    '/a/main.js%00',
    '/a/main.js/x'
  ]) {
    const reply = await get(path)
    t.ok(reply.status === 400 || reply.status === 404, path)
    t.notMatch(reply.body, 'secret\n')
  }

  await writeFile(join(directory, 'main.js'), 'changed')
  t.equal(await (await fetch(`${url}/main.js`)).text(), 'changed', 'a new build is served at once')
})

t.test('names a build by its content, and keeps the previous one', async t => {
  const directory = t.testdir({
    'main.js': 'const a = 1;',
    'main.d.ts': '',
    '.hidden': '',
    'index.html': '',
    icons: { 'a.svg': '<svg/>' }
  })
  const builds = createBuilds(directory)
  const first = await builds.current()
  t.match(first?.directory, /^_[0-9a-f]{16}$/)
  t.same([...(first?.files.keys() ?? [])].sort(), ['icons/a.svg', 'index.html', 'main.js'])
  t.equal((await createBuilds(directory).current())?.directory, first?.directory, 'a restart changes nothing')
  utimesSync(join(directory, 'main.js'), 1, 1)
  t.equal((await createBuilds(directory).current())?.directory, first?.directory, 'the time of a file changes nothing')

  writeFileSync(join(directory, 'icons/a.svg'), '<svg><g/></svg>')
  await until(async () => (await builds.current())?.directory !== first?.directory)
  t.equal(await builds.find(first?.directory as string), first, 'an older page finds its modules')
  t.equal(await builds.find('_0000000000000000'), undefined)
  mkdirSync(join(directory, 'more'))
  writeFileSync(join(directory, 'more/b.js'), '')
  const second = (await builds.current())?.directory
  await until(async () => (await builds.current())?.directory !== second)
  t.equal(await builds.find(first?.directory as string), undefined, 'not forever')
})

t.test('has no build for a directory without main.js', async t => {
  t.equal(await createBuilds(t.testdir({ 'index.html': '' })).current(), null)
  t.equal(await createBuilds(join(t.testdir(), 'gone')).current(), null)
})

t.test('serves what the compiler wrote, and names what a module needs', async t => {
  const www = fileURLToPath(new URL('../../../www/', import.meta.url))
  const build = await createBuilds(www).current()
  for (const [name, bytes] of build?.files ?? [])
    if (!readFileSync(join(www, name)).equals(bytes)) t.fail(`${name} is not what lies in dist/www`)
  const pages = readdirSync(join(www, 'pages')).filter(name => name.endsWith('.js') && name !== 'page.js')
  t.ok(pages.length > 15)
  for (const name of pages) {
    const needed = new Set(['main.js', `pages/${name}`].flatMap(entry => build?.closure(entry) ?? []))
    t.ok(needed.size <= 40, `${name} needs ${needed.size} modules`)
    for (const each of needed) if (build?.files.has(each) !== true) t.fail(`${name} needs ${each}, which is not there`)
  }
})

t.test('follows static imports only', async t => {
  const directory = t.testdir({
    'main.js': [
      "import { add as plus } from './base/add.js';",
      'import "./base/bare.js";',
      "export { page } from './base/again.js';",
      "import path from 'package';",
      "export const load = () => import('./later.js');"
    ].join('\n'),
    'later.js': '',
    base: {
      'add.js': "import { shared } from './shared.js';\nexport const add = shared;",
      'shared.js': "import './add.js';\nexport const shared = 1;",
      'bare.js': '',
      'again.js': 'export const page = 1;'
    }
  })
  const build = await createBuilds(directory).current()
  const needed = ['base/add.js', 'base/again.js', 'base/bare.js', 'base/shared.js', 'main.js']
  t.same(build?.closure('main.js').sort(), needed.sort(), 'a circle ends')
  t.same(build?.closure('words/zh/a.js'), ['words/zh/a.js'], 'a module that nothing imports is on its own')
})
