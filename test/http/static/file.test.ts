import t from 'tap'
import { once } from 'node:events'
import { type FileHandle, open, truncate } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Route } from '../../../lib/http/core/route.js'
import { attachment, contentType, fileReply, isCompressible, type OpenedFile } from '../../../lib/http/static/file.js'
import { startServer } from '../../support/http-server.js'
import { until } from '../../support/until.js'

t.test('serves files', async t => {
  const directory = t.testdir({ 'a.txt': '0123456789', 'page.html': '<p>', empty: '', sub: {} })
  const handles: FileHandle[] = []
  const large = join(directory, 'large')
  await (await open(large, 'w')).close()
  await truncate(large, 3 * 1024 * 1024)
  const routes: Route[] = [
    {
      method: 'GET',
      path: '/f/*name',
      auth: 'public',
      handle: ({ params }) => fileReply({ file: join(directory, params['name'] as string) })
    },
    {
      method: 'GET',
      path: '/download',
      auth: 'public',
      handle: async () => {
        const file = async (): Promise<OpenedFile> => {
          const handle = await open(join(directory, 'a.txt'))
          handles.push(handle)
          return { handle, path: 'a.txt' }
        }
        const headers = { 'Content-Disposition': attachment('naïve "a".zip'), 'Content-Type': 'application/zip' }
        return fileReply({ file, headers })
      }
    }
  ]
  const { url } = await startServer(t, routes)

  const whole = await fetch(`${url}/f/a.txt`)
  t.match(Object.fromEntries(whole.headers), {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': '10',
    'accept-ranges': 'bytes',
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff'
  })
  t.equal(await whole.text(), '0123456789')
  const etag = whole.headers.get('etag') as string
  t.equal((await fetch(`${url}/f/a.txt`, { headers: { 'if-none-match': etag } })).status, 304)

  const part = await fetch(`${url}/f/a.txt`, { headers: { range: 'bytes=2-4' } })
  t.equal(part.status, 206)
  t.equal(part.headers.get('content-range'), 'bytes 2-4/10')
  t.equal(await part.text(), '234')
  t.equal(await (await fetch(`${url}/f/a.txt`, { headers: { range: 'bytes=3-3' } })).text(), '3', 'a range of one byte')
  const beyond = await fetch(`${url}/f/a.txt`, { headers: { range: 'bytes=10-' } })
  t.equal(beyond.status, 416)
  t.equal(beyond.headers.get('content-range'), 'bytes */10')

  const head = await fetch(`${url}/f/a.txt`, { method: 'HEAD' })
  t.equal(head.headers.get('content-length'), '10')
  t.equal(await (await fetch(`${url}/f/empty`)).text(), '')
  t.equal((await (await fetch(`${url}/f/large`)).arrayBuffer()).byteLength, 3 * 1024 * 1024)
  for (const name of ['missing', 'sub', 'a.txt/x']) {
    const reply = await fetch(`${url}/f/${name}`)
    t.equal(reply.status, 404, name)
    t.notMatch(await reply.text(), directory)
  }

  const download = await fetch(`${url}/download`)
  t.equal(
    download.headers.get('content-disposition'),
    `attachment; filename="na_ve _a_.zip"; filename*=UTF-8''na%C3%AFve%20%22a%22.zip`
  )
  t.equal(
    download.headers.get('content-type'),
    'application/zip',
    'the header of the handler wins, without regard to case'
  )
  t.equal(await download.text(), '0123456789')
  await fetch(`${url}/download`, { method: 'HEAD' })
  for (const handle of handles) t.equal(handle.fd, -1, 'closed')
})

t.test('leaves no file open if the client goes away while it is opened', async t => {
  const path = join(t.testdir({ 'a.txt': '0123456789' }), 'a.txt')
  const handles: FileHandle[] = []
  let isAsked = false
  const routes: Route[] = [
    {
      method: 'GET',
      path: '/download',
      auth: 'public',
      handle: ({ signal }) =>
        fileReply({
          async file() {
            isAsked = true
            await once(signal, 'abort')
            const handle = await open(path)
            handles.push(handle)
            return { handle, path }
          }
        })
    }
  ]
  const { server, port, events } = await startServer(t, routes)
  const socket = connect({ port, host: '127.0.0.1' })
  socket.write('GET /download HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => isAsked)
  socket.destroy()
  await until(() => events.some(({ kind }) => kind === 'request'))
  await server.close({ graceMs: 0 })
  t.same(
    handles.map(({ fd }) => fd),
    [-1],
    'opened and closed'
  )
})

t.test('encodes names of downloads', async t => {
  t.equal(attachment('a b.zip'), 'attachment; filename="a b.zip"')
  t.equal(attachment('a\r\nb'), `attachment; filename="a__b"; filename*=UTF-8''a%0D%0Ab`)
  t.equal(attachment("it's(1)*\ud800"), `attachment; filename="it's(1)*_"; filename*=UTF-8''it%27s%281%29%2A%EF%BF%BD`)
})

t.test('returns content types', async t => {
  t.equal(contentType('a/B.HTML'), 'text/html; charset=utf-8')
  t.equal(contentType('main.js'), 'text/javascript; charset=utf-8')
  t.equal(contentType('Makefile'), 'application/octet-stream')
  t.equal(contentType('x.constructor'), 'application/octet-stream')
  t.equal(contentType('.js'), 'application/octet-stream', 'a name, not an extension')
  for (const name of ['a.css', 'a.svg', 'a.json', 'a.wasm', 'a.webmanifest'])
    t.ok(isCompressible(contentType(name)), name)
  for (const name of ['a.png', 'a.woff2', 'a.zip', 'a']) t.notOk(isCompressible(contentType(name)), name)
})
