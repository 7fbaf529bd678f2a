import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import { createReload } from '../../lib/server/front.js'

function reporter() {
  const told: string[] = []
  return {
    told,
    info: (line: string) => void told.push(line),
    warn: (line: string) => void told.push(`warning: ${line}`)
  }
}

t.test('reports in one line what has changed, or that nothing has', async t => {
  const report = reporter()
  await createReload([async () => 'a token', async () => null, async () => 'a certificate'], report)()
  await createReload([async () => null], report)()
  t.same(report.told, ['Reloaded: a token, a certificate', 'Reloaded: nothing has changed'])
})

t.test('warns of what cannot be read, and still reads everything else', async t => {
  const report = reporter()
  const broken = async () => Promise.reject(new Refusal('invalid', 'invalid_tls', 'cert.pem is no certificate'))
  const bug = async () => Promise.reject(new TypeError('a bug'))
  await createReload([broken, bug, async () => 'a token'], report)()
  t.match(report.told, [
    'warning: Not reloaded, the previous value stays in use: cert.pem is no certificate',
    /^warning: Not reloaded, the previous value stays in use: TypeError: a bug\n +at /,
    'Reloaded: a token'
  ])
})

t.test('runs two reloads one after the other', async t => {
  let running = 0
  const most: number[] = []
  const reload = createReload(
    [
      async () => {
        most.push(++running)
        await new Promise(resolve => setImmediate(resolve))
        running--
        return null
      }
    ],
    reporter()
  )
  await Promise.all([reload(), reload(), reload()])
  t.same(most, [1, 1, 1])
})
