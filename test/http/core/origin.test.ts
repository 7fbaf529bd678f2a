import t from 'tap'
import { isFixedName, isOriginOf, parseHost, parseOrigin } from '../../../lib/http/core/origin.js'

t.test('reads the host of a request, and nothing that is more than a host', async t => {
  const cases: Array<[text: string, name: string | null, port?: number]> = [
    ['a.test', 'a.test'],
    ['A.Test.:8443', 'a.test', 8443],
    ['a_b.test:', 'a_b.test'],
    ['[::1]:5431', '::1', 5431],
    ['', ''],
    ['user@a.test', null],
    ['user:secret@a.test:80', null],
    ['a.test/path', null],
    ['a.test?x', null],
    ['a.test#x', null],
    ['a.test\\b.test', null],
    ['a.test, b.test', null],
    ['a.test:80:80', null],
    ['[::1', null],
    ['a test', null],
    ['a.test;id', null]
  ]
  for (const [text, name, port = null] of cases) t.same(parseHost(text), name === null ? null : { name, port }, text)
})

t.test('an origin is that of the server only if it is the whole origin', async t => {
  const cases: Array<[origin: string, host: string, isOwn: boolean | null]> = [
    ['https://a.test', 'a.test', true],
    ['https://a.test:443', 'a.test', true],
    ['http://A.TEST', 'a.test:80', true],
    ['http://[::1]:5431', '[::1]:5431', true],
    ['https://a.test', 'a.test:80', false],
    ['http://a.test:8080', 'a.test', false],
    ['https://a.test.evil.test', 'a.test', false],
    ['https://a.test@evil.test', 'a.test', null],
    ['https://evil.test@a.test', 'a.test', null],
    ['https://user:secret@a.test', 'a.test', null],
    ['https://a.test/', 'a.test', null],
    ['https://a.test\\@evil.test', 'a.test', null],
    ['https://', 'a.test', null],
    ['null', 'a.test', null],
    ['chrome-extension://a.test', 'a.test', null]
  ]
  for (const [text, given, expected] of cases) {
    const [origin, host] = [parseOrigin(text), parseHost(given)]
    t.equal(origin === null || host === null ? null : isOriginOf(origin, host), expected, `${text} at ${given}`)
  }
})

t.test('a name that is not looked up cannot be rebound', async t => {
  for (const name of ['localhost', '127.0.0.1', '::1']) t.equal(isFixedName(name), true, name)
  for (const name of ['127.1', '2130706433', 'localhost.evil.test', '']) t.equal(isFixedName(name), false, name)
})
