import t from 'tap'
import { createClient } from '../../../lib/cli/client/client.js'
import { createFleetApi } from '../../../lib/cli/client/fleet-api.js'
import { until } from '../../support/until.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { isBroken } from '../../../lib/cli/client/streams.js'
import { beginRollout } from '../../support/fleet-rollout.js'

const token = (value: string) => ({ value, from: 'the test', origin: null })

async function open(t: Parameters<typeof startFleet>[0], names: readonly string[]) {
  const fleet = await startFleet(t, names)
  const connect = () =>
    createFleetApi(createClient({ serverUrl: fleet.stage.url, token: token(fleet.env.SVC_TOKEN), env: {} }))
  return { ...fleet, connect }
}

t.test('names are escaped in paths', async t => {
  const { connect } = await open(t, ['web-1'])
  const api = connect()
  await t.rejects(api.node('web-1/drain'), { code: 'not_found', message: /"web-1\/drain"/ })
  t.match(await api.node('web-1'), { name: 'web-1' })
})

t.test('follows the events to their end, and throws for a connection that breaks', async t => {
  const { stage, hub, shop, connect } = await open(t, ['web-1', 'web-2'])
  const id = await beginRollout({ hub }, { pause: 'approve' }, shop.id)
  const { signal } = new AbortController()
  const follow = async (): Promise<string[]> => {
    const types: string[] = []
    for await (const { type } of connect().follow(id, signal)) {
      types.push(type)
      if (types.length === 1 && (await connect().rollout(id)).state === 'approval') await stage.restart()
    }
    return types
  }
  await until(async () => (await connect().rollout(id)).state === 'approval')
  t.ok(isBroken(await follow().catch((error: unknown) => error)))
  await connect().halt(id, 'enough')
  t.same(await follow(), ['rollout', 'end'])
})
