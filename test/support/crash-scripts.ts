import type { Random } from './random.js'

/** What a script adds to index.html. */
export const edit = 'edited'

/** The behaviour of a script in a crash run. */
const bodies = {
  /** Prints more than a pipe can hold. */
  prints: 'seq 1 20000; echo the-end-of-the-script',
  short: 'echo the-end-of-the-script',
  slow: 'sleep 0.2; echo the-end-of-the-script',
  /** Leaves a process running on purpose. */
  leaves: 'setsid sleep 300 >/dev/null 2>&1 & echo the-end-of-the-script',
  /** Leaves a process running that must be ended unless the script has ended by itself. */
  starts: 'setsid sleep 300 >/dev/null 2>&1 & sleep 0.3; echo the-end-of-the-script',
  fails: 'echo the-end-of-the-script; FAIL=1',
  /** Takes everything in the target for the user it has anyway, and opens every directory: also that of svc. */
  owns: 'chown -R "$(id -u)" . && find . -type d -exec chmod 755 {} +; echo the-end-of-the-script',
  /** Changes a file that was just deployed, in one rename: not from another disk. */
  edits: `new="$PROOF.new"; [ "$(stat -c %d .)" != "$(stat -c %d "\${new%/*}")" ] || { cp -p index.html "$new" && echo ${edit} >> "$new" && touch -r index.html "$new" && mv "$new" index.html; }; echo the-end-of-the-script`,
  /** Runs until it is cancelled or killed. */
  stays: 'setsid sleep 300 >/dev/null 2>&1 & sleep 300'
}

export type ScriptKind = keyof typeof bodies

/**
 * A script that leaves proofs: `<id>.<step>.begun` with the deployment before it (renamed, since a kill may come
 * between the making of a file and its writing), and `.ended` once nothing but its end is left.
 */
export function scriptOf(kind: ScriptKind, step: 'pre' | 'post', proofs: string): string {
  const proof = `${proofs}/$SVC_DEPLOY_ID.${step}`
  return `export CRASH_STEP=${step} PROOF="${proof}"; echo "$SVC_PREVIOUS_DEPLOY_ID" > "${proof}.told"; mv "${proof}.told" "${proof}.begun"; ${bodies[kind]}; : > "${proof}.ended"; exit \${FAIL:-0}`
}

/** Returns random scripts for an upload. */
export function someScripts(random: Random, proofs: string): Array<[name: string, value: string]> {
  const fields: Array<[string, string]> = []
  const of = (kinds: readonly ScriptKind[], step: 'pre' | 'post'): string => scriptOf(random.oneOf(kinds), step, proofs)
  if (random.below(3) === 0)
    fields.push(['preDeploy', of(['short', 'short', 'slow', 'leaves', 'starts', 'prints', 'owns', 'fails'], 'pre')])
  if (random.below(2) === 0) {
    const isAsync = random.below(3) === 0
    fields.push([
      'postDeploy',
      of(
        isAsync
          ? ['slow', 'starts', 'fails', 'stays']
          : ['short', 'slow', 'leaves', 'starts', 'prints', 'owns', 'edits', 'fails'],
        'post'
      )
    ])
    if (isAsync) fields.push(['postDeployAsync', 'true'])
  }
  return fields
}

/** Whether a deployment fails because of these scripts. Background scripts never make it fail. */
export function mayFail(fields: ReadonlyArray<readonly [name: string, value: string]>): boolean {
  const isAsync = fields.some(([name]) => name === 'postDeployAsync')
  return fields.some(([name, value]) => value.includes('FAIL=1') && !(isAsync && name === 'postDeploy'))
}
