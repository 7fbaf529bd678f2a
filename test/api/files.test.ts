import { linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

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
