import { join } from 'node:path'
import t from 'tap'
import type { AdminToken } from '../../lib/auth/admin-token.js'
import { ensureHome, locateHome } from '../../lib/config/home.js'
import { createFront, type World } from '../../lib/server/front.js'
import { openStage } from '../support/store.js'

t.test('needs only a store, and lets health report whether there is a token', async t => {
  const { store, clock, ids, directory } = await openStage(t)
  const home = locateHome({ SVC_HOME: join(directory, 'home') }, directory)
  await ensureHome(home)
  const faults: string[] = []
  const world = { store, home, clock, ids, version: '1.2.3', base: '', log: (line: string) => void faults.push(line) }
  const admin = { current: () => 'a-token' } as unknown as AdminToken
  const front = createFront(world as unknown as World, admin)
  t.equal(front.admin, admin)
  t.match(await front.probe.report(), { status: 'ok', version: '1.2.3' })
  const broken = {
    current() {
      throw new Error('unreadable')
    }
  } as unknown as AdminToken
  t.not((await createFront(world as unknown as World, broken).probe.report()).status, 'ok')
  t.same(faults, [])
})
