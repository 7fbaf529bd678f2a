import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { startServeProcess } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { blocksOf } from './document.js'

/* Runs the commands of docs/bundles.md in their order, as a reader would type them. */

const launcher = fileURLToPath(new URL('../../../bin/svc.js', import.meta.url))
const blocks = blocksOf('docs/bundles.md').filter(({ mark }) => mark === 'sh')

t.test('the commands of the document do what it says', async t => {
  t.ok(blocks.length >= 5)
  const top = t.testdir({ shop: { dist: { 'index.html': 'hello' } } })
  const [cwd, media] = [join(top, 'shop'), join(top, 'media')]
  mkdirSync(media)
  mkdirSync(join(top, '.ssh'))
  const key = join(top, '.ssh/id_ed25519')
  t.match(await svc(['keys', 'generate', key], { cwd }), { code: 0 })
  renameSync(`${key}.pub`, join(cwd, 'allowed_signers'))
  const served = await startServeProcess(t, top)
  const project = await served.createProject({ name: 'site', deployPath: join(top, 'www') })
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: project.id, outputDir: 'dist' }))
  const text = blocks
    .map(block => block.text)
    .join('\n')
    .replaceAll('/media/', `${media}/`)
    .replaceAll('proj_…', project.id)
    .replaceAll('SVC_DEPLOY_TOKEN=…', `SVC_DEPLOY_TOKEN=${project.token}`)
  const script = `svc() { "${process.execPath}" "${launcher}" "$@"; }\nset -ex\n${text}`
  const env = { PATH: process.env['PATH'], HOME: top, SVC_SERVER_URL: served.url }
  const said = await new Promise<string>(settle =>
    execFile('sh', ['-c', script], { cwd, env }, (error, stdout, stderr) =>
      settle(`${stdout}${stderr}\nends with ${error?.code ?? 0}`)
    )
  )
  t.match(said, /ends with 0$/)
  t.match(said, /signed by allowed_signers \(SHA256:\S+\) for proj_/)
  t.ok(existsSync(join(top, 'www/index.html')))
})
