import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { decodeText, readText, readTextIfAny, tokenOf, withoutMark } from '../../lib/base/text.js'

t.test('decodes UTF-8, and refuses UTF-16', async t => {
  t.equal(withoutMark('\ufeffa\ufeff'), 'a\ufeff')
  t.equal(decodeText(Buffer.from('\ufeffä=1\n'), 'x'), 'ä=1\n')
  t.equal(decodeText(Buffer.alloc(0), 'x'), '')
  t.equal(decodeText(Buffer.from('a'), 'x'), 'a')
  const wide = Buffer.from('\ufeffA=1\n', 'utf16le')
  const message = 'Cannot read "x": it is UTF-16 text. Save it as UTF-8'
  for (const bytes of [wide, Buffer.from(wide).swap16(), wide.subarray(2), Buffer.from(wide.subarray(2)).swap16()])
    t.throws(() => decodeText(bytes, '"x"'), { code: 'not_utf8', message })
  const directory = t.testdir({ plain: '\ufeffa' })
  writeFileSync(join(directory, 'wide'), wide)
  t.equal(await readText(join(directory, 'plain')), 'a')
  await t.rejects(readText(join(directory, 'none')), { code: 'ENOENT' })
  t.equal(await readTextIfAny(join(directory, 'none')), '')
  await t.rejects(readTextIfAny(join(directory, 'wide')), { code: 'not_utf8' })
})

t.test('a token has no white space around it, and only what a header can carry', t => {
  for (const text of ['tok', 'tok\n', 'tok\r\n', ' tok\t', '\ufefftok'])
    t.equal(tokenOf(text, 'SVC_TOKEN'), 'tok', text)
  t.equal(tokenOf('\n', 'SVC_TOKEN'), '')
  const table: Array<[text: string, what: string]> = [
    ['to\nk', 'character 3 is U+000A'],
    ['to\ufeffk', 'character 3 is U+FEFF'],
    ['tok\u200b', 'character 4 is U+200B'],
    ['tok🚀', 'character 4 is U+1F680'],
    ['t\0ok', 'character 2 is U+0000']
  ]
  for (const [text, what] of table) {
    t.throws(() => tokenOf(text, 'SVC_TOKEN'), {
      code: 'invalid_field',
      message: `The token of SVC_TOKEN is not one: its ${what}. Copy it again`
    })
  }
  t.end()
})
