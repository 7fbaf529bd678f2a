import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { startChromium } from './chromium.js'
import { openDuring, stillDesktop } from './stage.js'

/* A folder that is deployed again from the panel: only what has changed is sent, and the server completes it. */

const { browser, skip } = await startChromium(t)

async function openFolder(t: Test) {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, stillDesktop)
  const folder = join(stage.sites, '..', 'dist')
  mkdirSync(folder)
  for (let n = 0; n < 5; n++) writeFileSync(join(folder, `${n}.bin`), randomBytes(100_000))
  writeFileSync(join(folder, 'index.html'), 'one')

  /** Deploys the folder, and returns the record. */
  async function deploy() {
    const before = (await stage.client.get('/api/logs')).body.length
    await page.goto(`${stage.url}/projects/${project.id}`)
    const isFirst = before === 0
    if (!isFirst) await page.getByRole('button', { name: 'Deploy…' }).click()
    await page.locator('input[webkitdirectory]').setInputFiles(folder)
    await page.getByRole('heading', { name: 'Deploy to storefront?' }).waitFor()
    await page.locator('svc-pack').getByRole('button', { name: 'Deploy', exact: true }).click()
    let record: any
    await until(async () => {
      const rows = (await stage.client.get('/api/logs')).body
      record = rows.length > before ? rows[0] : undefined
      return record?.status === 'success'
    })
    return record
  }
  return { stage, page, watch, folder, deploy }
}

t.test('a folder that is deployed again sends what has changed', { skip }, async t => {
  const { stage, page, folder, deploy } = await openFolder(t)
  const first = await deploy()
  t.match(first, { uploadedBytes: null })
  writeFileSync(join(folder, 'index.html'), 'two')
  const second = await deploy()
  t.match(second, { reusedFrom: first.id, fileCount: 6 })
  t.ok(second.uploadedBytes < 5000, `${second.uploadedBytes} bytes were sent`)
  t.ok(second.archiveBytes > 500_000, 'the archive is whole')
  t.equal(readFileSync(join(stage.sites, 'storefront/index.html'), 'utf8'), 'two')

  const third = await deploy()
  t.match(third, { reusedFrom: second.id, treeSha256: second.treeSha256 }, 'nothing has changed')

  await page.goto(`${stage.url}/storage`)
  await page.getByText(/^3 archives in .* KB; if each were whole: .* KB\.$/).waitFor()

  // The release is removed between the question and the upload.
  let refusals = 0
  await page.route('**/api/deploy/upload', route => {
    if (route.request().postData()?.includes('name="base"') !== true) return route.continue()
    refusals++
    const body = { success: false, error: 'Release is not kept any more', message: '', code: 'base_gone' }
    return route.fulfill({ status: 409, contentType: 'application/json', body: JSON.stringify(body) })
  })
  writeFileSync(join(folder, 'index.html'), 'three')
  const fourth = await deploy()
  t.match([fourth.uploadedBytes, refusals], [null, 1], 'then all files are sent')
  t.equal(readFileSync(join(stage.sites, 'storefront/index.html'), 'utf8'), 'three')
  t.strictSame(readdirSync(stage.home.tmp), [])
})
