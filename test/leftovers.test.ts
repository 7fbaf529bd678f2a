import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

/*
 * Every place that writes under a name of the moment: what a kill leaves there, and who removes it. A new place has to
 * be written down here. Secrets are in those marked with *, which only their owner may read.
 */
const places: Record<string, string> = {
  'carry/backup/place.ts':
    '* .restore-*, <home>.before-*: the next start, or restore, finishes or removes them (test/carry/backup/place)',
  'core/archive/compose.ts': 'deployments/*.zip.tmp: the next start (deploy/strays.ts)',
  'carry/backup/backup.ts': '* tmp/*.backup: the next start (deploy/strays.ts)',
  'cli/commands/audit.ts': '<file>.<process>.part, where the user said: the next export under that name',
  'api/client.ts': '<directory>.new, <directory>.old, where install.sh installs: its next run',
  'cli/commands/backup.ts': '* <file>.<process>.part, where the user said: the next backup under that name',
  'cli/commands/transfer.ts': '* <file>.<process>.part, where the user said: the next export under that name',
  'cli/pack/pack.ts':
    '* <file>.part: the next build; <temporary>/svc-pack-*: the next command that packs, after a day (test/cli/pack)',
  'base/files.ts':
    '* <file>.<random>.tmp: the next replacement, and of config.json and variables.key the next start (test/main/leftovers)',
  'deploy/strays.ts': 'puts back what carry/transfer/import.ts has set aside',
  'deploy/files.ts': '* tmp/*.zip, tmp/*.changes, <temporary>/svc-*.changes: the next start (deploy/strays.ts)',
  'deploy/trees.ts': 'renames the manifest of an import to that of its deployment; pending.ts lists it until then',
  'deploy/scripted.ts': 'deployments/*.marks.tmp: the next start (deploy/strays.ts)',
  'deploy/intake.ts': 'tmp/*.pending: the next start (deploy/strays.ts)',
  'deploy/packs.ts': 'deployments/*.index.tmp, *.zip.tmp: the next start (deploy/strays.ts)',
  'deploy/pieces.ts':
    '* tmp/upl_*.part, tmp/upl_*.json: the client continues it; a day after its last use, or the next start, removes it',
  'fleet/agent/identity.ts': '* keys/agent.next.ed25519: the next enrolment uses it (test/server/agent-hub)',
  'fleet/agent/releases.ts': 'prepared/*.part: the next fetch of that archive continues it; removed after 24 hours',
  'http/core/listen.ts': '.<random> beside the socket: the next server that listens there (test/http/core/listen)',
  'operate/logs/read/contents.ts': '* tmp/inflated-*, without a name at once: the next start (deploy/strays.ts)',
  'core/store/recovery.ts': '* svc.db.tmp, svc.db.schema-*.tmp: the next start (test/main/leftovers)',
  'core/store/owner.ts': 'svc.sock.<random>: the next owner (test/core/store/owner)',
  'core/store/redo.ts': '* svc.db.redo.tmp: the next start (test/main/leftovers)',
  'operate/machine/probe.ts': 'health.probe: the next start (test/main/leftovers)',
  'core/install/commit.ts': 'below the staging directory: recovery, by the undo journal (test/target)',
  'core/install/before-images.ts': 'kept for the operator: the files that were edited before a revert (docs/checks.md)',
  'core/install/manifest.ts': 'deployments/*.manifest.tmp: the next start (deploy/strays.ts)',
  'core/install/owned-tree.ts': 'trees/*.tmp: the next start (deploy/strays.ts)',
  'core/install/put-back.ts': 'as core/install/commit.ts',
  'core/install/scripted-file.ts': 'deployments/*.scripted.tmp: the next start (deploy/strays.ts)',
  'core/install/staging.ts':
    '<target>/.svc-staging-*: recovery, by the undo journal; without one it stays, as it may have the only copy of a file',
  'core/install/undo.ts': 'as core/install/commit.ts; deployments/*.helper.tmp: the next start',
  'cluster/archives.ts': 'tmp/*.zip: the next start (deploy/strays.ts)',
  'cluster/local-copy.ts': 'svc.db.image: the next image that the hub takes from another one',
  'carry/transfer/import.ts':
    '* tmp/*.before, tmp/*.absent: the next start restores the previous files, or removes these (test/deploy/strays)',
  'carry/transfer/needs.ts': '* tmp/*.zip: the next start (deploy/strays.ts)'
}

/** Names of the moment: made to be renamed, random, or in a directory for temporary files. */
const signs =
  /\.(?:tmp|part)`|\bthrough(?:Beside|Part)\(|\bmkdtemp\(|\brename(?:Sync)?\((?!from: )|join\((?:home\.)?tmp, (?!name\))|'health\.probe'|=> stagingPrefix \+/

t.test(
  'every place that writes under a name of the moment is written down, with who removes what a kill leaves',
  async t => {
    const top = fileURLToPath(new URL('../../lib/', import.meta.url))
    const found = readdirSync(top, { recursive: true, encoding: 'utf8' })
      .filter(path => path.endsWith('.ts'))
      .filter(path => {
        const lines = readFileSync(join(top, path), 'utf8')
          .split('\n')
          .filter(line => !/^\s*(\*|\/\*|\/\/)/.test(line))
        return lines.some(line => signs.test(line))
      })
    t.strictSame(found.map(path => path.replaceAll('\\', '/')).sort(), Object.keys(places).sort())
  }
)
