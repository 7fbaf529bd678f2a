import t from 'tap'
import {
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { eventsOf } from '../support/client.js'

t.test('lists, previews and downloads the files of a target', async t => {
  const { as, client, createProject, home, sites } = await startServer(t)
  const project = await createProject('shop')
  const fresh = await createProject('fresh')
  const root = join(sites, 'shop')
  mkdirSync(join(root, 'css'), { recursive: true })
  mkdirSync(join(sites, 'shop-secret'))
  writeFileSync(join(sites, 'shop-secret/key.txt'), 'secret')
  writeFileSync(join(root, 'index.html'), '<h1>hello</h1>')
  writeFileSync(join(root, 'css/main.css'), 'a {}')
  writeFileSync(join(root, 'image.png'), Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1, 2, 3]))
  writeFileSync(join(root, 'big.txt'), 'x'.repeat(1024 * 1024 + 1))
  symlinkSync(join(sites, 'shop-secret'), join(root, 'out'))
  symlinkSync('/etc/hostname', join(root, 'host'))
  const list = (path?: string) =>
    client.get(`/api/projects/${project.id}/files${path === undefined ? '' : `?path=${encodeURIComponent(path)}`}`)
  const download = (path: string) => client.get(`/api/projects/${project.id}/download?path=${encodeURIComponent(path)}`)
  const preview = (path: string) => client.get(`/api/projects/${project.id}/file?path=${encodeURIComponent(path)}`)

  t.test('lists a directory', async t => {
    const { status, body } = await list()
    t.equal(status, 200)
    t.match(
      body.find((entry: { name: string }) => entry.name === 'css'),
      {
        name: 'css',
        path: 'css',
        isDir: true,
        size: 0,
        mtime: /Z$/
      }
    )
    t.match(
      body.find((entry: { name: string }) => entry.name === 'index.html'),
      {
        path: 'index.html',
        isDir: false,
        size: 14,
        mtime: /Z$/
      }
    )
    t.match((await list('css')).body, [{ name: 'main.css', path: 'css/main.css', isDir: false, size: 4 }])
    t.same((await list('')).body, body)
  })

  t.test('previews a file', async t => {
    t.match((await preview('index.html')).body, { type: 'text', content: '<h1>hello</h1>', language: 'html' })
    t.match((await preview('image.png')).body, { type: 'binary', size: 8, message: String })
    t.match((await preview('big.txt')).body, { type: 'binary', size: 1024 * 1024 + 1, message: String }, 'above 1 MB')
  })

  t.test('downloads a file or a part of it, as an attachment', async t => {
    const address = `/api/projects/${project.id}/download`
    const whole = await client.get(`${address}?path=image.png`)
    t.equal(whole.status, 200)
    t.match(whole.headers, {
      'content-type': 'image/png',
      'content-length': '8',
      'content-disposition': 'attachment; filename="image.png"',
      'content-security-policy': "default-src 'none'; sandbox"
    })
    const part = await client.send('GET', `${address}?path=css/main.css`, { headers: { range: 'bytes=2-' } })
    t.match([part.status, part.text, part.headers['content-range']], [206, '{}', 'bytes 2-3/4'])
    const head = await client.send('HEAD', `${address}?path=big.txt`)
    t.match([head.status, head.text, head.headers['content-length']], [200, '', '1048577'])
    const { ticket } = (await client.post('/api/tickets', { purpose: 'download' })).body
    t.equal((await as(null).get(`${address}?path=index.html&ticket=${ticket}`)).text, '<h1>hello</h1>')
    t.equal((await as(null).get(`${address}?path=index.html&ticket=${ticket}`)).status, 401, 'a ticket is valid once')
    t.match(await client.get(address), { status: 400, body: { field: 'path' } })
    t.equal((await client.get(`${address}?path=css`)).status, 400, 'a directory is not a file')
    t.equal((await client.get(`${address}?path=nothing`)).status, 404)
  })

  t.test('lists files that may contain secrets, but does not show them', async t => {
    mkdirSync(join(root, '.ssh'))
    for (const name of [
      '.env',
      '.env.production',
      'site.key',
      'tls.pem',
      '.npmrc',
      '.ssh/authorized_keys',
      '.bash_history'
    ]) {
      writeFileSync(join(root, name), 'hunter2')
      for (const reply of [await preview(name), await download(name)]) {
        t.match(reply, { status: 403, body: { code: 'denied_path', field: 'path' } }, name)
        t.notMatch(reply.text, 'hunter2')
      }
    }
    symlinkSync('.env', join(root, 'settings.txt'))
    t.equal((await preview('settings.txt')).status, 403, 'by another name')
    linkSync(home.database, join(root, 'config.txt'))
    t.equal((await download('config.txt')).status, 403, "svc's own file, by a hard link")
    writeFileSync(join(root, 'all.txt'), await zipOf({ 'svc-export/settings.json': '{}' }))
    t.equal((await download('all.txt')).status, 403, 'a package')
    t.ok((await list()).body.some((entry: { name: string }) => entry.name === '.env'))
  })

  t.test('never leaves the target', async t => {
    for (const path of [
      '..',
      '../shop-secret',
      '../shop-secret/key.txt',
      'css/../../shop-secret',
      'out',
      'out/key.txt',
      '/etc',
      'host',
      'a\0b'
    ]) {
      for (const reply of [await list(path), await preview(path), await download(path)]) {
        t.ok([400, 403, 404].includes(reply.status), `${JSON.stringify(path)}: ${reply.status}`)
        t.notMatch(reply.text, 'secret"')
      }
    }
  })

  t.test('answers 404 for missing files', async t => {
    t.equal((await list('nothing')).status, 404)
    t.equal((await preview('nothing.txt')).status, 404)
    t.ok([400, 404].includes((await preview('css')).status), 'a directory has no preview')
    t.match(await client.get(`/api/projects/${project.id}/file`), { status: 400, body: { field: 'path' } })
    t.equal((await client.get('/api/projects/proj_unknown/files')).status, 404)
    t.equal((await client.get('/api/projects/proj_unknown/file?path=a')).status, 404)
  })

  t.test('a target that was never deployed to is empty', async t => {
    t.same((await client.get(`/api/projects/${fresh.id}/files`)).body, [])
  })
})

t.test('describes and verifies the files of a project', async t => {
  const { as, client, createProject, sites } = await startServer(t)
  const shop = await createProject('shop')
  const other = await createProject('other')
  const at = (route: string): string => `/api/projects/${shop.id}/${route}`
  const own = as(shop.token)
  t.match(await own.get(at('tree')), { status: 200, body: { success: true, baseline: 'none', files: 0 } })
  const file = { filename: 'site.zip', bytes: await zipOf({ 'index.html': 'hello', 'a.css': 'a {}' }) }
  const pushed = await own.upload([
    ['projectId', shop.id],
    ['file', file]
  ])
  const { deployId } = eventsOf(pushed).at(-1)
  t.match(await own.get(at('tree')), { body: { files: 2, bytes: 9, liveId: deployId, verified: null, drift: null } })

  rmSync(join(sites, 'shop/index.html'))
  const verified = await own.get(at('verify'))
  t.match(verified, { status: 200, headers: { 'content-type': 'application/x-ndjson' } })
  t.match(eventsOf(verified), [
    { event: 'start', files: 2, baseline: 'owned' },
    { event: 'finding', path: 'index.html', state: 'missing', since: deployId },
    { event: 'progress', done: 2, files: 2 },
    { event: 'end', files: 2, ok: 1, missing: 1 }
  ])
  const sums = eventsOf(await client.get(at('verify?sums=1'))).filter(({ event }) => event === 'file')
  t.match(sums, [
    { path: 'a.css', sha256: /^[0-9a-f]{64}$/ },
    { path: 'index.html', sha256: /^2cf24dba5fb0a30e/ }
  ])
  t.match(await client.get(at('tree?drift=1')), { body: { verified: { differing: 1 }, drift: { count: 1 } } })

  for (const route of ['tree', 'verify']) {
    t.match(await as(other.token).get(at(route)), { status: 403, body: { code: 'other_project' } })
    t.match(await client.get(`/api/projects/proj_x/${route}`), { status: 404, body: { code: 'not_found' } })
  }
  t.match(await own.get(at('tree?drift=maybe')), { status: 400, body: { field: 'drift' } })
  t.match(await own.get(at('verify?sums=maybe')), { status: 400, body: { field: 'sums' } })
  rmSync(join(sites, 'shop'), { recursive: true })
  writeFileSync(join(sites, 'shop'), 'a file')
  t.match(await own.get(at('verify')), { status: 409, body: { code: 'target_unusable' } }, 'an error response')
})

t.test('repairs the files of a project', async t => {
  const { as, client, createProject, sites } = await startServer(t)
  const shop = await createProject('shop')
  const other = await createProject('other')
  const files = { 'index.html': 'hello', 'a.css': 'a {}' }
  await as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'site.zip', bytes: await zipOf(files) }]
  ])
  const route = `/api/projects/${shop.id}/repair`
  t.match(await client.post(route), { status: 409, body: { code: 'nothing_to_repair' } })
  for (const name of Object.keys(files)) rmSync(join(sites, 'shop', name))
  t.match(await client.post(route, { paths: ['x'] }), { status: 400, body: { code: 'invalid_field', field: 'paths' } })
  t.match(await client.post(route, { paths: 'x' }), { status: 400, body: { field: 'paths' } })
  const one = await client.post(route, { paths: ['a.css'], message: 'one' })
  t.match(one, { status: 200, body: { success: true, deployId: /^dep_/, status: 'success' } })
  t.match(await client.get(`/api/logs/${one.body.deployId}`), { body: { triggerSource: 'repair', message: 'one' } })
  const streamed = await client.post(route, {}, { accept: 'application/x-ndjson' })
  t.match(eventsOf(streamed).at(-1), { event: 'status', status: 'success' })
  t.equal(readFileSync(join(sites, 'shop/index.html'), 'utf8'), 'hello')
  t.match(await as(other.token).post(route), { status: 403 })
})

t.test('lists the edited files of a project', async t => {
  const { as, client, createProject, sites } = await startServer(t)
  const shop = await createProject('shop')
  const other = await createProject('other')
  const drift = (token: string, query = '') => as(token).get(`/api/projects/${shop.id}/drift${query}`)
  t.match(await drift(shop.token), { status: 200, body: { success: true, baseline: 'none', count: 0 } })
  const file = { filename: 'site.zip', bytes: await zipOf({ 'index.html': 'hello', 'a.css': 'a {}' }) }
  const pushed = await as(shop.token).upload([
    ['projectId', shop.id],
    ['file', file]
  ])
  const { deployId } = eventsOf(pushed).at(-1)
  writeFileSync(join(sites, 'shop/index.html'), 'by hand')
  for (const query of ['', '?full=1', '?full=false']) {
    const { body } = await drift(shop.token, query)
    t.match(body, { baseline: 'owned', partial: false, problem: null, count: 1 })
    t.match(body.files, [{ path: 'index.html', since: deployId, size: 7, mtime: /Z$/ }])
  }
  t.match(await client.get(`/api/projects/${shop.id}/drift`), { body: { count: 1 } }, 'the admin token, too')
  t.match(await drift(other.token), { status: 403, body: { code: 'other_project' } })
  t.match(await drift(shop.token, '?full=maybe'), { status: 400, body: { code: 'invalid_field', field: 'full' } })
  t.match(await client.get('/api/projects/proj_x/drift'), { status: 404, body: { code: 'not_found' } })
})

t.test('sends an edited file, and nothing else', async t => {
  const { as, client, createProject, sites } = await startServer(t)
  const shop = await createProject('shop')
  const other = await createProject('other')
  const names = ['edited.js', 'same.js', '.env', 'gone.js', 'link.js', 'sub/moved.js', 'dir.js']
  const bytes = await zipOf(Object.fromEntries(names.map(name => [name, name])))
  await as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'site.zip', bytes }]
  ])
  const at = (name: string): string => join(sites, 'shop', name)
  for (const name of ['edited.js', '.env', 'own.js', 'sub/moved.js']) writeFileSync(at(name), 'by hand')
  for (const name of ['gone.js', 'link.js', 'dir.js']) rmSync(at(name))
  symlinkSync('own.js', at('link.js'))
  mkdirSync(at('dir.js'))
  renameSync(at('sub'), at('elsewhere'))
  symlinkSync('elsewhere', at('sub'))
  const get = (path: string, token = shop.token) =>
    as(token).get(`/api/projects/${shop.id}/drift/file?path=${encodeURIComponent(path)}`)
  const sent = await get('edited.js')
  t.match(sent, { status: 200, headers: { 'content-disposition': /attachment; filename="edited.js"/ } })
  t.equal(sent.text, 'by hand')
  for (const path of ['same.js', 'own.js', 'gone.js', 'link.js', 'sub/moved.js', 'elsewhere/moved.js']) {
    t.match(await get(path), { status: 404, body: { code: 'not_found' } }, path)
  }
  // A terabyte without contents: hashing it would take half an hour.
  truncateSync(at('edited.js'), 2 ** 40)
  const huge = as(shop.token).get(`/api/projects/${shop.id}/drift/file?path=edited.js`, { range: 'bytes=0-9' })
  t.match((await huge).status, 206)
  writeFileSync(at('edited.js'), 'by hand')
  t.match(await get('dir.js'), { status: 400, body: { code: 'not_a_file' } })
  t.match(await get('.env'), { status: 403, body: { code: 'denied_path' } })
  t.match(await get('../other/x'), { status: 404 })
  t.match(await get(''), { status: 400, body: { field: 'path' } })
  t.match(await get('edited.js', other.token), { status: 403, body: { code: 'other_project' } })
  t.match(await client.get('/api/projects/proj_x/drift/file?path=a'), { status: 404, body: { code: 'not_found' } })
})

t.test("the server's directories", async t => {
  const { client, sites, home } = await startServer(t)
  writeFileSync(join(sites, 'a.txt'), '')
  writeFileSync(join(sites, '.env'), '')
  const list = (path: string, more = '') => client.get(`/api/fs/list?path=${encodeURIComponent(path)}${more}`)

  t.match((await client.get('/api/fs/home')).body, { home: String, cwd: String, sep: '/', roots: ['/'] })
  const both = await list(sites)
  t.equal(both.status, 200)
  t.match(both.body, { path: sites, exists: true, isDir: true, truncated: false })
  t.same(
    both.body.entries.map(({ name }: { name: string }) => name),
    ['a.txt'],
    'denied places are left out'
  )
  t.same((await list(sites, '&include=dirs')).body.entries, [])
  const above = await list(dirname(home.directory))
  t.equal(above.status, 200, 'a directory above the data directory is listed')
  const paths: string[] = above.body.entries.map(({ path }: { path: string }) => path)
  t.ok(paths.includes(sites), 'with its other entries')
  t.notOk(paths.includes(home.directory), 'but without the data directory')
  for (const path of [home.directory, join(home.directory, 'deployments')]) {
    t.match(await list(path), { status: 403, body: { code: 'forbidden_path' } }, path)
  }

  t.match(await list('relative'), { status: 400, body: { field: 'path' } })
  t.match(await client.get('/api/fs/list'), { status: 400, body: { field: 'path' } })
  t.match(await list(sites, '&include=some'), { status: 400, body: { field: 'include' } })
  t.equal((await list('/proc/1')).status, 403)
})
