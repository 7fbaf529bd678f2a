import t from 'tap'
import { Refusal } from '../../lib/base/refusal.js'
import { packError, unpackError } from '../../lib/base/packed-error.js'

t.test('a refusal stays a refusal', async t => {
  const packed = structuredClone(
    packError(new Refusal('conflict', 'in_the_way', 'Nothing was changed', { field: 'x' }))
  )
  const refusal = unpackError(packed)
  t.ok(refusal instanceof Refusal)
  t.match(refusal, { kind: 'conflict', code: 'in_the_way', message: 'Nothing was changed', field: 'x' })
})

t.test('a disk error keeps its code, any other error its message', async t => {
  const error = Object.assign(new Error('full'), { code: 'ENOSPC', syscall: 'write' })
  t.match(unpackError(structuredClone(packError(error))), {
    message: 'full',
    code: 'ENOSPC',
    syscall: 'write',
    stack: error.stack
  })
  t.equal(unpackError(packError('a text')).message, 'a text')
})
