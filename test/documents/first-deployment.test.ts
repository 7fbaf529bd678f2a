import t from 'tap'
import { type Block, blocksOf, runBlocks } from './document.js'

/* The first deployment, as the README prints it: three commands, and nothing to copy between them. */

const blocks = blocksOf('README.md')
const server = blocks.findIndex(({ mark }) => mark === 'sh server')
const [sample, deploy] = blocks.slice(server + 1) as [Block, Block]

t.test('the README needs three commands for a first deployment, and no id or token', async t => {
  const commands = deploy.text.trim().split('\n')
  t.same(
    commands.map(line => line.split(' ').slice(0, 2).join(' ')),
    ['svc login', 'svc init', 'svc push']
  )
  t.notMatch(deploy.text, /token|TOKEN|proj_|dep_|…/)
})

t.test('the three commands of the README deploy, in directories that are new', async t => {
  const check = {
    line: deploy.line,
    mark: 'sh',
    text: 'diff dist/index.html "$HOME/storefront/index.html"\n! grep -q "$ADMIN_TOKEN" svc.config.json\n'
  }
  const startedMs = performance.now()
  const { code, stderr } = await runBlocks([blocks[server] as Block, sample, deploy, check], {})
  t.comment(`server, login, init and push: ${((performance.now() - startedMs) / 1000).toFixed(1)} s`)
  t.equal(code, 0, stderr)
})
