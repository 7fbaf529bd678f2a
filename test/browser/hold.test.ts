import t from 'tap'
import { openStore } from '../../lib/core/store/durable-store.js'
import { updateProject } from '../../lib/core/store/tables/projects.js'
import { gateOf, statusServer } from '../support/held.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { desktop, onPhone, openDuring, photographer } from './stage.js'
import { survey } from './survey.js'

/*
 * The page of a deployment that is held: its checks, the time to confirm it, and both decisions. With PICTURES=1 in the
 * environment pictures are left in dist/screens.
 */

const { browser, skip } = await startChromium(t)
const photograph = photographer('hold')

t.test('shows the checks and the time that is left, and takes the decision', { skip }, async t => {
  const stage = await startServer(t)
  const checked = await statusServer(t)
  const { id, token } = await stage.createProject('storefront')
  await stage.server.stop({ wait: false })
  const store = await openStore(stage.home)
  const policy = { gate: gateOf([{ http: checked.url }, { command: 'test -e index.html' }], { deadline: 60 }) }
  await store.write(tx => updateProject(tx, id, { policy }))
  await store.close()
  await stage.restart()
  const push = async (text: string) => {
    const pushed = stage.as(token).upload([
      ['projectId', id],
      ['confirmSeconds', '3600'],
      ['file', { filename: 'site.zip', bytes: await zipOf({ 'index.html': text }) }]
    ])
    pushed.catch(() => {})
    for (;;) {
      const [row] = (await stage.client.get('/api/logs?limit=1&status=running')).body as Array<{ id: string }>
      if (row !== undefined) return row.id
    }
  }

  checked.status = 503
  const first = await push('one')
  const { page, watch } = await openDuring(t, browser, stage.url, `deployments/${first}`, { viewport: desktop })
  const hold = page.locator('svc-hold')
  await hold.getByText('503').waitFor()
  await hold.getByRole('button', { name: 'Revert now' }).waitFor()
  t.equal(await hold.getByRole('button', { name: 'Confirm' }).count(), 0, 'not before the checks have passed')
  await photograph(page, 'checks-desktop')
  checked.status = 200
  await hold.getByRole('timer').waitFor()
  t.match(await hold.getByRole('timer').textContent(), /^(1 h|59 min)/)
  await photograph(page, 'waiting-desktop')
  t.same(await survey(page), [])
  await hold.getByRole('button', { name: 'Confirm' }).click()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  t.equal(await hold.getByRole('button').count(), 0)

  const second = await push('two')
  const small = await openDuring(t, browser, stage.url, `deployments/${second}`, {
    ...onPhone,
    locale: 'zh-CN',
    colorScheme: 'dark'
  })
  await small.page.getByRole('timer').waitFor()
  await photograph(small.page, 'waiting-phone-dark-zh')
  t.same(await survey(small.page), [])
  await small.page.getByRole('button', { name: '立即恢复' }).click()
  await small.page.locator('.verdict svc-status[state=failed]').waitFor()
  await photograph(small.page, 'reverted-phone-dark-zh')
  t.match((await stage.client.get(`/api/logs/${second}`)).body, { revertReason: 'operator', placed: null })
  t.same([...watch.complaints, ...small.watch.complaints], [])
})
