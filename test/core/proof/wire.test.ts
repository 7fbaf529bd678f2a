/* Bytes of SSH, base64 and lines: whole, cut at each byte, and with something behind. */
import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { sshString } from '../../../lib/core/proof/dsse.js'
import { armored, bytesOf, linesOf, sshReader, unreadable } from '../../../lib/core/proof/wire.js'

t.test('bytes of SSH', async t => {
  const bytes = Buffer.concat([Buffer.from([0, 0, 0, 7]), sshString(Buffer.from('one')), sshString(Buffer.from('two'))])
  const reader = sshReader(bytes, 'it')
  t.equal(reader.number(), 7)
  t.equal(reader.text(), 'one')
  t.throws(() => reader.end(), Refusal, 'something follows')
  t.equal(reader.string().toString(), 'two')
  reader.end()
  for (let length = 0; length < bytes.length; length++) {
    const cut = sshReader(bytes.subarray(0, length), 'it')
    t.throws(() => [cut.number(), cut.text(), cut.string()], Refusal, `cut at ${length}`)
  }
  t.throws(() => sshReader(Buffer.from('ffffffff', 'hex'), 'it').string(), Refusal, 'a length of 4 GB is refused')
})

t.test('texts', async t => {
  t.equal(bytesOf('AAAA', 'it').length, 3)
  for (const text of ['', 'AAA', 'AA A', 'AB==', 'A'.repeat(300_000)]) t.throws(() => bytesOf(text, 'it'), Refusal)
  t.strictSame(linesOf('a\r\nb\n\n', 'it'), ['a', 'b'])
  t.throws(() => linesOf('a'.repeat(300_000), 'it'), Refusal)
  t.equal(armored('-----BEGIN X-----\nAA\nAA\n-----END X-----\n', 'X', 'it').length, 3)
  t.throws(() => armored('-----BEGIN Y-----\nAAAA\n-----END Y-----\n', 'X', 'it'), Refusal)
  t.match(unreadable('it', 'why'), { code: 'key_unreadable', message: 'Cannot read it: why' })
})
