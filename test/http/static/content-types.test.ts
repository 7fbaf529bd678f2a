import t from 'tap'
import { contentType, isCompressible } from '../../../lib/http/static/content-types.js'

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
