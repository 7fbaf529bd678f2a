import t from 'tap'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createArchiveCheck } from '../../lib/deploy/archive-check.js'
import { eventsOf } from '../support/client.js'
import { setClock } from '../support/clock.js'
import { startReceiver } from '../support/receiver.js'
import { startServer } from '../support/server.js'
import { spoil } from '../support/shared-archive.js'
import { openStage } from '../support/store.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

const dayMs = 86_400_000

t.test('a damaged archive is told of once, by the releases that it affects, until it is mended', async t => {
  const receiver = await startReceiver(t)
  const clock = setClock()
  const settings = { webhook_url: `${receiver.url}/hook`, webhook_events: 'archives_damaged' }
  const stage = await startServer(t, { clock, settings })
  const { client, home } = stage
  const project = await stage.createProject('shop')
  const push = async (text: string): Promise<string> => {
    const bytes = await zipOf({ 'index.html': text.repeat(50) })
    const reply = await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'a.zip', bytes }]
    ])
    return eventsOf(reply).at(-1).deployId
  }
  const [first, second] = [await push('one'), await push('two')]
  const pathOf = (id: string): string => join(home.deployments, `${id}.zip`)
  const look = () => stage.server.services.archiveCheck.look()
  const archives = async () => (await client.get('/api/health/detail')).body.archives
  const timesTold = (): number => receiver.requests.length

  await look()
  const checkedAt = new Date(clock.now()).toISOString()
  t.same(await archives(), { checkedAt, damaged: [] })

  let mend = await spoil(pathOf(first), 'index.html')
  clock.advance(6.9 * dayMs)
  await look()
  t.equal((await archives()).checkedAt, checkedAt, 'it is not time')
  clock.advance(0.1 * dayMs)
  await look()
  t.same((await archives()).damaged, [first])
  t.match(JSON.parse((await receiver.received(1))[0]?.text as string), {
    event: 'archives_damaged',
    trigger: 'verification',
    project: null,
    message: 'kept archives are damaged: 1 release cannot be rolled back to',
    releases: [{ id: first, projectName: 'shop' }]
  })
  t.ok(
    stage.told.warn.some(line => line.includes(`"${first}.zip" is damaged`)),
    'the log of the server says which file'
  )

  await stage.restart()
  t.same((await archives()).damaged, [first], 'a restart forgets nothing')
  clock.advance(dayMs)
  const mendSecond = await spoil(pathOf(second), 'index.html')
  await look()
  t.match(JSON.parse((await receiver.received(2))[1]?.text as string).releases, [{ id: second }], 'only the new one')
  mend()
  clock.advance(dayMs)
  await look()
  t.same((await archives()).damaged, [second], 'what is mended is known a day later')
  mend = await spoil(pathOf(first), 'index.html')
  clock.advance(dayMs)
  await look()
  t.match(JSON.parse((await receiver.received(3))[2]?.text as string).releases, [{ id: first }], 'again')

  t.equal((await client.delete(`/api/deployments/${first}/archive?force=1`)).status, 200)
  t.same((await archives()).damaged, [second], 'an archive that is gone is not damaged')
  mendSecond()
  clock.advance(-30 * dayMs)
  await look()
  t.same((await archives()).damaged, [], 'a clock that was set back delays nothing')
  t.equal(timesTold(), 3)
})

t.test('it waits while something is deployed, and ends with the server', async t => {
  const { store, clock, directory } = await openStage(t)
  const home = { directory, deployments: join(directory, 'deployments') }
  let [isBusy, asked] = [true, 0]
  const start = () =>
    createArchiveCheck({
      store,
      clock,
      home,
      uploads() {
        asked++
        return isBusy ? 1 : 0
      },
      found: async () => {},
      log(message, error) {
        throw new Error(message, { cause: error })
      }
    })
  mkdirSync(home.deployments)
  writeFileSync(join(home.deployments, 'dep_aaaaaaaaaaaaaaaa.zip'), await zipOf({ a: 'text' }))

  const stopped = start()
  const looking = stopped.look()
  await until(() => asked >= 3)
  await stopped.stop()
  await looking
  t.same(stopped.state(), { checkedAt: null, damaged: [] }, 'it was not read, and stopping does not wait for it')

  const check = start()
  const again = check.look()
  asked = 0
  await until(() => asked >= 3)
  t.equal(check.state().checkedAt, null)
  isBusy = false
  await again
  t.equal(check.state().checkedAt, new Date(clock.now()).toISOString())
  t.same(start().state(), check.state())
  const file = join(directory, 'archive-check.json')
  t.equal(readFileSync(file, 'utf8').includes(check.state().checkedAt as string), true)
  for (const text of ['', '{', '{"checkedAt":"never","damaged":[]}', '[]', 'null']) {
    writeFileSync(file, text)
    t.same(start().state(), { checkedAt: null, damaged: [] }, text)
  }
})
