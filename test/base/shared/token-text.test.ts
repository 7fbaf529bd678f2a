import { crc32 } from 'node:zlib'
import t from 'tap'
import { randomIds } from '../../../lib/base/digests.js'
import { isTokenText, tokenTextFault, tokenTextOf, resemblesToken } from '../../../lib/base/shared/token-text.js'

const secret = 'AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE'
const text = tokenTextOf('abcdefgh234567ab', secret)

t.test('the text of a token ends with the CRC-32 of all before it', async t => {
  const start = `svc_abcdefgh_${secret}_`
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(crc32 === undefined ? 0 : crc32(start))
  t.equal(text.slice(0, start.length), start)
  if (crc32 === undefined) t.comment('this runtime has no zlib.crc32')
  else t.equal(text.slice(start.length), sum.toString('base64url'))
  t.equal(isTokenText(text), true)
  t.equal(tokenTextFault(text), null)
})

t.test('every changed character and every cut is recognized', async t => {
  for (let at = 0; at < text.length; at++) {
    const other = text[at] === 'x' ? 'y' : 'x'
    const changed = text.slice(0, at) + other + text.slice(at + 1)
    if (isTokenText(changed)) t.fail(`${at}: ${changed}`)
    if (isTokenText(text.slice(0, at))) t.fail(`cut at ${at}`)
  }
  t.equal(tokenTextFault(text.slice(0, 40)), 'it is cut off: it has 40 of 63 characters')
  t.equal(tokenTextFault(`${text}x`), 'it is too long: it has 64 instead of 63 characters')
  t.match(tokenTextFault(text.replace('AbCd', 'AbCe')), /wrong/)
})

t.test('other texts are not judged', async t => {
  for (const other of ['', 'svc_', 'a-token-of-a-project', 'svc-token', randomIds.token()]) {
    t.equal(isTokenText(other), false)
    t.equal(tokenTextFault(other), null)
  }
})

t.test('random tokens are valid', async t => {
  for (let n = 0; n < 200; n++) {
    const random = tokenTextOf(randomIds.id('tok_').slice(4), randomIds.token())
    if (!isTokenText(random)) t.fail(random)
  }
})

t.test('a text resembles a token by its beginning and its length alone', async t => {
  const text = tokenTextOf('abcdefgh', 'x'.repeat(43))
  t.equal(resemblesToken(text), true)
  t.equal(resemblesToken(`${text.slice(0, -1)}?`), true, 'the digest decides')
  t.equal(resemblesToken(text.slice(1)), false)
  t.equal(resemblesToken(`x${text.slice(1)}`), false)
})
