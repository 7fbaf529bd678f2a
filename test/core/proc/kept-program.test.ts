import t from 'tap'
import { keepProgram } from '../../../lib/core/proc/kept-program.js'
import { until } from '../../support/until.js'

t.test('a program that ends is started again, and its errors are told', async t => {
  const ends: Array<[number | null, string]> = []
  const program = keepProgram({
    file: process.execPath,
    args: ['-e', 'console.error("no luck"); process.exit(3)'],
    env: process.env,
    waitsMs: [1],
    onEnd: (code, errors) => void ends.push([code, errors])
  })
  await until(() => ends.length >= 2)
  await program.stop()
  t.strictSame(ends.slice(0, 2), [
    [3, 'no luck'],
    [3, 'no luck']
  ])
})

t.test('a program that runs is ended by a stop, and not started again', async t => {
  const program = keepProgram({
    file: process.execPath,
    args: ['-e', 'setInterval(() => {}, 1000)'],
    env: process.env,
    onEnd: () => t.fail('it did not end by itself')
  })
  const { pid } = program
  t.ok(pid)
  await program.stop()
  t.throws(() => process.kill(pid as number, 0), { code: 'ESRCH' })
  t.equal(program.pid, undefined)
})

t.test('a program that cannot be started is told', async t => {
  let told = ''
  const program = keepProgram({
    file: '/does/not/exist',
    args: [],
    env: {},
    onEnd: (_, errors) => void (told = errors)
  })
  await until(() => told !== '')
  t.match(told, /ENOENT/)
  await program.stop()
})
