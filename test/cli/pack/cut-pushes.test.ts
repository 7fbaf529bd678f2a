/*
 * Pushes of changes whose connections are cut at random bytes, half of the time because the server is killed. A push that
 * succeeds has deployed once; one that fails has changed nothing or everything, and the next one succeeds.
 */
import { appendFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startCuttingRelay } from '../../support/cutting-relay.js'
import { createRandom } from '../../support/random.js'
import { type ServeProcess, startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { firstSeed, randomCases } from '../../support/thorough.js'
import { snapshot } from '../../support/tree.js'

const files = 40
/** More than a push of a few changes sends. */
const mostBytes = 4500

t.test('pushes of changes that are cut at random bytes', async t => {
  const cwd = t.testdir({ site: {}, target: {} })
  const place = (name: string): string => join(cwd, 'site', name)
  const random = createRandom(firstSeed)
  let server: ServeProcess = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'target') })
  await server.changeProject(shop.id, { policy: { prune: 'managed' } })
  const relay = await startCuttingRelay(t, () => server.url)
  for (let at = 0; at < files; at++) writeFileSync(place(`${at}.txt`), `${at} `.repeat(5000))
  const config = { serverUrl: relay.url, projectId: shop.id, outputDir: 'site' }
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify(config))
  const env = { SVC_HOME: join(cwd, 'client'), SVC_DEPLOY_TOKEN: shop.token, CI: '' }
  const push = async () => await svc(['push', '--incremental', 'auto'], { cwd, env })
  t.match(await push(), { code: 0 })

  const seen = { pushes: 0, cuts: 0, kills: 0, failed: 0, changes: 0 }
  for (let round = 0; round < randomCases(3, 20); round++) {
    const before = snapshot(join(cwd, 'target'))
    const known = new Set((await server.deployments(shop.id)).map(({ id }) => id))
    for (let changes = 1 + random.below(3); changes > 0; changes--)
      appendFileSync(place(`${random.below(files)}.txt`), `round ${round}, ${random.below(1e6)}`)
    if (random.below(4) === 0) rmSync(place(random.oneOf(readdirSync(place('')))))
    let cuts = 1 + random.below(2)
    const arm = (): void => void (relay.left = cuts-- > 0 ? 1 + random.below(mostBytes) : Infinity)
    let restarted: Promise<void> = Promise.resolve()
    async function restart(): Promise<void> {
      seen.kills++
      await server.stop('SIGKILL')
      server = await startServeProcess(t, cwd)
    }
    relay.onCut = async () => {
      seen.cuts++
      await (restarted = random.below(2) === 0 ? restart() : restarted)
      arm()
    }
    arm()
    const { code, stdout, stderr } = await push()
    relay.left = Infinity
    // The last cut may have come after everything was said.
    await restarted
    seen.pushes++
    const rows = (await server.deployments(shop.id)).filter(({ id }) => !known.has(id))
    const wanted = snapshot(join(cwd, 'site'))
    const successes = rows.filter(({ status }) => status === 'success')
    if (rows.some(({ reusedFrom }) => reusedFrom != null)) seen.changes++
    const what = `round ${round}: ${code}, ${rows.length} deployments, ${stdout}${stderr}`
    const found = snapshot(join(cwd, 'target'))
    if (code === 0) {
      t.equal(successes.length, 1, what)
      t.strictSame(found, wanted, what)
      continue
    }
    seen.failed++
    t.strictSame(found, successes.length > 0 ? wanted : before, what)
    t.match(await push(), { code: 0 }, what)
    t.strictSame(snapshot(join(cwd, 'target')), wanted, what)
  }
  t.strictSame(readdirSync(join(server.home, 'tmp')), [])
  t.ok(seen.cuts > 0 && seen.changes > 0, `seed ${firstSeed}: ${JSON.stringify(seen)}`)
})
