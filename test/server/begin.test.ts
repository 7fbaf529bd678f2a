import t from 'tap'
import { type Begun, beginWork, endWork } from '../../lib/server/begin.js'

/** Services that note what they are asked to do; `fails` names those that cannot. */
function noting(fails: readonly string[] = []) {
  const said: string[] = []
  const note = (what: string) => async (): Promise<void> => {
    said.push(what)
    if (fails.includes(what)) throw new Error(what)
  }
  const doors: Record<string, object> = {
    terminals: { opened: () => ({ stop: note('terminals.stop') }) },
    logs: { asked: async () => ({ viewer: { close: note('logs.viewer.close') } }) }
  }
  const part = (name: string) => doors[name] ?? new Proxy({}, { get: (_, act: string) => note(`${name}.${act}`) })
  const parts = new Proxy({}, { get: (_, name: string) => part(name) })
  return { begun: { front: parts, services: parts } as unknown as Begun, said, note }
}

t.test('whatever begins ends, in a fixed order', async t => {
  const { begun, said, note } = noting()
  await beginWork(begun, { store: null as never, home: { directory: t.testdir() } as never })
  const started = said.filter(each => each.endsWith('.start')).map(each => each.replace('.start', ''))
  t.match(
    said,
    ['headers.sealStored', 'deployer.recover', 'pieces.load', 'fleet.start'],
    'what was left is mended first'
  )
  said.length = 0
  await endWork(begun, { deployments: note('deployments'), replies: note('replies'), graceMs: 0 })
  t.match(said, ['terminals.stop', 'deployments', 'fleet.stop'], 'nodes are needed until the deployments have ended')
  for (const name of started) t.ok(said.includes(`${name}.stop`), `${name} ends`)
  t.ok(said.indexOf('replies') < said.indexOf('webhook.stop'), 'the replies may end while messages are sent')
})

t.test('what nobody has needed is not loaded to end it', async t => {
  const { begun, said, note } = noting()
  const none = { opened: () => undefined, asked: () => undefined }
  const services = new Proxy(begun.services, {
    get: (all, name) => (name === 'terminals' || name === 'logs' ? none : Reflect.get(all, name))
  })
  await endWork({ ...begun, services }, { deployments: note('deployments'), graceMs: 0 })
  t.ok(said.includes('deployments') && said.includes('webhook.stop'))
})

t.test('terminals that are being loaded end, too', async t => {
  const { begun, said, note } = noting()
  const late = { opened: () => undefined, asked: async () => ({ stop: note('terminals.stop') }) }
  const services = new Proxy(begun.services, {
    get: (all, name) => (name === 'terminals' ? late : Reflect.get(all, name))
  })
  await endWork({ ...begun, services }, { deployments: note('deployments'), graceMs: 0 })
  t.ok(said.includes('terminals.stop'))
})

t.test('each part ends, even if another one cannot', async t => {
  const all = noting()
  const ending = { deployments: all.note('deployments'), graceMs: 0 }
  await endWork(all.begun, ending)
  for (const broken of all.said.filter(each => each !== 'deployments')) {
    const { begun, said, note } = noting([broken])
    await t.rejects(endWork(begun, { deployments: note('deployments'), graceMs: 0 }), { message: broken })
    t.strictSame([...said].sort(), [...all.said].sort(), `after ${broken}`)
  }
})
