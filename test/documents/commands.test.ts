import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { zipOf } from '../support/zip.js'
import { blocksOf, commandsOf, documents, runBlocks, top, type Block, type Given } from './document.js'

/* Runs every command of each document, in its order. */
const site = { 'work/dist/index.html': '<h1>A site</h1>\n' }
/** A running server with a project, which most documents assume. */
const served: Block[] = [
  { line: 0, mark: 'sh server', text: 'svc serve\n' },
  {
    line: 0,
    mark: 'sh',
    text: `curl -fsS http://127.0.0.1:5431/api/projects -H "Authorization: Bearer $ADMIN_TOKEN" \\
    -H 'Content-Type: application/json' -d '{"name": "site", "deployPath": "/srv/site"}'\n`
  }
]
/** The same with one deployment. */
const running: Block[] = [
  ...served,
  {
    line: 0,
    mark: 'sh',
    text: `svc init --project proj_… --server http://127.0.0.1:5431 --out dist
    SVC_DEPLOY_TOKEN=… svc push --json\n`
  }
]
const bundled: Block = { line: 0, mark: 'sh', text: 'make dist > /tmp/made && cp dist/svc-*.tgz /media/\n' }
const given: Record<string, Given> = {
  'docs/backup.md': {},
  'docs/ci.md': { files: site, done: [...served, bundled] },
  'docs/installation.md': {},
  'docs/upgrade.md': {},
  'README.md': {},
  'docs/api.md': {
    files: { ...site, 'work/build.zip': await zipOf({ 'index.html': '<h1>Another</h1>\n' }) },
    done: running
  },
  'docs/audit.md': {
    files: site,
    // What a reader has kept from before.
    done: [
      ...running,
      {
        line: 0,
        mark: 'sh',
        text: 'cp "$(svc home)/keys/server.pub" server.pub\ncp "$(svc home)"/witness/*.note kept.note\n'
      }
    ]
  },
  // Who signs bundles has a key, and who checks them has its public half.
  'docs/bundles.md': {
    files: site,
    done: [
      ...running,
      {
        line: 0,
        mark: 'sh',
        text: `mkdir ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519
    echo "ana@laptop $(cat ~/.ssh/id_ed25519.pub)" > allowed_signers\n`
      }
    ]
  },
  'docs/exact.md': { files: site, done: running },
  'docs/locks.md': { files: site, done: running },
  'docs/promotion.md': { files: site, done: running },
  // Its chain has the receipt of an earlier push, too.
  'docs/proof.md': { files: { ...site, 'work/dist/a b/c.txt': 'c' }, done: running },
  'docs/migrating.md': {
    files: {
      ...site,
      'work/dist/package.json': '{"name": "site", "version": "1.0.0"}',
      'work/dist/package-lock.json':
        '{"name": "site", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "site", "version": "1.0.0"}}}',
      'work/dist/ecosystem.config.cjs': `module.exports = { apps: [{ name: 'site', script: 'server.js' }] }`
    },
    done: served
  },
  'docs/settings.md': {
    files: { ...site, 'work/body.json': '{}' },
    env: { WEBHOOK_ID: 'msg_1', WEBHOOK_TIMESTAMP: '1700000000', SECRET: 'whsec' },
    done: running
  }
}

/** DOCUMENT=docs/ci.md runs the commands of one document. */
const asked = process.env['DOCUMENT']

for (const document of documents.filter(name => asked === undefined || name === asked)) {
  const commands = commandsOf(document)
  if (commands.length > 0)
    t.test(`the commands of ${document} succeed`, async t => {
      const { code, line, stderr } = await runBlocks(commands, given[document] ?? { files: site, done: running })
      t.equal(code, 0, `${document}:${line} ${code === 0 ? '' : stderr.slice(-2000)}`)
    })

  t.test(`every command of ${document} is in a block that is run`, async t => {
    // Blocks of the reference are the output of --help.
    const reference = /^Usage: svc/m
    for (const { line, mark, text } of blocksOf(document)) {
      // The blocks of docs/streams.md have names; streams.test.ts runs them. hubs.test.ts runs those of hubs.
      if (
        /^sh( server| deploy| follow| terminal| break-glass| hubs( second)?( server)?)?$/.test(mark) ||
        reference.test(text)
      )
        continue
      t.notMatch(
        text,
        /^\s*(sudo |\$ )?(svc|node|npm|make|curl|tar|sudo|systemctl|sqlite3) /m,
        `${document}:${line} is marked sh`
      )
    }
  })
}

t.test('docs/troubleshooting.md quotes messages of the program', async t => {
  const sources = readdirSync(join(top, 'lib'), { recursive: true, encoding: 'utf8' }).filter(path =>
    path.endsWith('.ts')
  )
  const said = [...sources.map(path => join(top, 'lib', path)), join(top, 'bin/svc.js')]
    .map(path => readFileSync(path, 'utf8'))
    .join('\n')
  const [, table = ''] =
    /## The server does not start\n([^]*?)\n## /.exec(readFileSync(join(top, 'docs/troubleshooting.md'), 'utf8')) ?? []
  const explained = [...table.matchAll(/^\| `([^`]+)` \|/gm)].flatMap(([, sentence = '']) =>
    sentence.split('…').map(part => part.trim())
  )
  t.ok(explained.length > 8)
  for (const part of explained.filter(part => /\w/.test(part)))
    t.ok(said.includes(part.replace(/^: |[()]+$/g, '')), part)
})
