import t from 'tap'
import { callAll, closing } from '../../lib/base/closing.js'

t.test('closes in reverse order and returns the result', async t => {
  const order: string[] = []
  const result = await closing(async defer => {
    defer(() => order.push('first opened'))
    defer(async () => order.push('second opened'))
    return 7
  })
  t.equal(result, 7)
  t.same(order, ['second opened', 'first opened'])
})

t.test('closes everything after a failure, and throws the first error', async t => {
  const order: string[] = []
  const failed = closing(async defer => {
    defer(() => order.push('closed'))
    defer(() => {
      throw new Error('while closing')
    })
    throw new Error('while working')
  })
  await t.rejects(failed, { message: 'while working' })
  t.same(order, ['closed'])
})

t.test('throws the error of a close if the work succeeded', async t => {
  const failed = closing(async defer => {
    defer(() => Promise.reject(new Error('not flushed')))
  })
  await t.rejects(failed, { message: 'not flushed' })
})

t.test('calls every function in turn and throws the first error', async t => {
  const order: string[] = []
  const step = (name: string, error?: string) => async () => {
    order.push(name)
    if (error !== undefined) throw new Error(error)
  }
  const throws = () => {
    throw new Error('second')
  }
  await t.rejects(callAll([step('a'), step('b', 'first'), throws, step('c')]), { message: 'first' })
  t.strictSame(order, ['a', 'b', 'c'])
  await callAll([step('d')])
})
