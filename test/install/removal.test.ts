import t from 'tap'
import { createAsked, isTooMuch, pruneTooMuch } from '../../lib/install/removal.js'

t.test('asks for nothing, for named files, or for all that are not protected', t => {
  const paths = ['a', 'a/b', 'b', 'c', 'uploads/x']
  const asked = (removes: Parameters<typeof createAsked>[0]): string[] => paths.filter(createAsked(removes))
  t.strictSame(asked(null), [])
  t.strictSame(asked({ kind: 'listed', paths: Buffer.from('0\na/b\nc\n') }), ['a/b', 'c'])
  t.strictSame(asked({ kind: 'listed', paths: Buffer.from('') }), [])
  t.strictSame(asked({ kind: 'absent', protect: ['uploads/**', 'b'], isForced: false }), ['a', 'a/b', 'c'])
  t.end()
})

t.test('most of the files are more than fifty and more than half', t => {
  t.notOk(isTooMuch(50, 50))
  t.ok(isTooMuch(51, 101))
  t.notOk(isTooMuch(51, 102))
  t.match(pruneTooMuch(51, 60), { kind: 'conflict', code: 'prune_too_much' })
  t.end()
})
