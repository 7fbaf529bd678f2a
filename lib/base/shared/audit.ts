/*
 * The detail of an audit entry about a change. The first line names the record, or is empty; each further line is one
 * field: `deployPath: /a → /b`, or `role: viewer` of a new record. A value is one line: it is quoted as JSON if it could
 * be read as something else. The text is all that an entry has, so that the hashes of the log cover it.
 */

/** One changed field. */
export interface Change {
  /** The name of the field, with its place: `policy.prune`, `policy.gate.after[0].http`. */
  field: string
  /** The value before; null of a new record. */
  from: string | null
  to: string
}

/** The value of a field that is empty. */
export const noValue = 'none'
/** The place of a value that is a secret. */
export const secretValue = '***'
/** The value of a secret that was replaced by another one. */
export const changedValue = 'changed'

const arrow = ' → '
/** Maximum number of changes in an entry. */
const maxChanges = 100

/** Returns the detail of an entry. */
export function writeChanges(subject: string, changes: readonly Change[]): string {
  const lines = changes.slice(0, maxChanges).map(lineOf)
  const more = changes.length - lines.length
  return [subject, ...lines, ...(more === 0 ? [] : [`more: ${more}`])].join('\n')
}

/** Returns the name of the record and the changes of a detail. A detail of another form is all name. */
export function readChanges(detail: string): { subject: string; changes: Change[] } {
  const [subject = '', ...lines] = detail.split('\n')
  const changes = lines.map(readLine)
  return changes.includes(null) ? { subject: detail, changes: [] } : { subject, changes: changes as Change[] }
}

/** Returns a detail on one line: the name of the record, then the changes. */
export function detailLine(detail: string): string {
  const { subject, changes } = readChanges(detail)
  return [subject, ...changes.map(lineOf)].filter(part => part !== '').join('; ')
}

/** Returns a change on one line. */
export function lineOf({ field, from, to }: Change): string {
  return `${field}: ${from === null ? '' : `${from}${arrow}`}${to}`
}

function readLine(line: string): Change | null {
  const [, field, values] = /^([^\s:]+): (.*)$/.exec(line) ?? []
  if (field === undefined || values === undefined) return null
  const at = arrowIn(values)
  return at === -1
    ? { field, from: null, to: values }
    : { field, from: values.slice(0, at), to: values.slice(at + arrow.length) }
}

/** Finds the arrow between two values. What is quoted may contain others. */
function arrowIn(values: string): number {
  let at = 0
  for (;;) {
    const found = values.indexOf(arrow, at)
    const opens = values.indexOf('"', at)
    if (found === -1 || opens === -1 || found < opens) return found
    const end = closingQuote(values, opens)
    if (end === -1) return found
    at = end + 1
  }
}

/** Returns where a quoted text ends that begins at a place; -1: it does not. */
function closingQuote(text: string, opens: number): number {
  for (let at = opens + 1; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === '"') return at
  }
  return -1
}

/** Everything that the audit log records, in the order in which it is shown. A released name stays. */
export const auditActions = [
  'auth.login',
  'auth.login_failed',
  'auth.logout',
  'auth.prove',
  'session.revoke',
  'auth.change_token',
  'auth.reset_token',
  'token.create',
  'token.update',
  'token.rotate',
  'token.revoke',
  'second_factor.enrol',
  'second_factor.lock',
  'second_factor.recovery',
  'second_factor.remove',
  'token.expiring',
  'signing_key.trust',
  'signing_key.revoke',
  'project.create',
  'project.update',
  'project.delete',
  'project.variables',
  'project.regenerate_token',
  'project.lock',
  'project.unlock',
  'project.maintenance_on',
  'project.maintenance_off',
  'server.lock',
  'server.unlock',
  'deployment.upload',
  'deployment.end',
  'deployment.rollback',
  'deployment.promote',
  'deployment.undo',
  'deployment.repair',
  'deployment.cancel',
  'deployment.approve',
  'deployment.reject',
  'deployment.confirm',
  'deployment.revert',
  'deployment.revert_failed',
  'deployment.mark_status',
  'deployment.delete_archive',
  'deployment.give_up',
  'deploy.post_deploy_failed',
  'node.enroll',
  'node.update',
  'node.drain',
  'node.undrain',
  'node.shared',
  'node.single',
  'node.forget',
  'enrollment.create',
  'enrollment.revoke',
  'fleet.history',
  'placement.add',
  'placement.remove',
  'rollout.start',
  'rollout.halt',
  'rollout.resume',
  'rollout.revert',
  'rollout.approve',
  'category.create',
  'category.update',
  'category.delete',
  'tag.create',
  'tag.update',
  'tag.delete',
  'log_source.create',
  'log_source.update',
  'log_source.delete',
  'notification_target.create',
  'notification_target.update',
  'notification_target.delete',
  'settings.update',
  'storage.clean',
  'migration.export',
  'migration.import',
  'backup.create',
  'backup.restore',
  'audit.export',
  'audit.rotate_key',
  'cluster.rekey',
  'audit.trimmed',
  'audit.tree_broken',
  'webhook.send',
  'terminal.open',
  'terminal.close'
] as const

/** What an entry of the audit log is about. */
export type AuditAction = (typeof auditActions)[number]

/** Whether svc records this. An earlier version may have recorded others. */
export function isAuditAction(text: string): text is AuditAction {
  return (auditActions as readonly string[]).includes(text)
}
