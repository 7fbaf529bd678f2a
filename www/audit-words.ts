/* Entries of the audit log in words. Pure. */

import { type AuditAction, type Change, changedValue, noValue, readChanges } from './shared/audit.js'
import { exactWords } from './elements/base/words.js'
import { fieldLabels, subjectWords, t } from './words/t.js'

/** The actions that the server records, by kind. `words` is English and passed to t(). */
export const actionRows: ReadonlyArray<{ action: AuditAction; words: string }> = [
  { action: 'auth.login', words: 'Signed in' },
  { action: 'auth.login_failed', words: 'Sign-in refused' },
  { action: 'auth.logout', words: 'Signed out' },
  { action: 'auth.prove', words: 'Token given again' },
  { action: 'session.revoke', words: 'Session ended' },
  { action: 'auth.change_token', words: 'Admin token changed' },
  { action: 'auth.reset_token', words: 'Admin token reset' },
  { action: 'token.create', words: 'Token created' },
  { action: 'token.update', words: 'Token changed' },
  { action: 'token.rotate', words: 'Token rotated' },
  { action: 'token.revoke', words: 'Token revoked' },
  { action: 'signing_key.trust', words: 'Signing key trusted' },
  { action: 'signing_key.revoke', words: 'Signing key revoked' },
  { action: 'second_factor.enrol', words: 'Second factor added' },
  { action: 'second_factor.lock', words: 'Second factor locked' },
  { action: 'second_factor.recovery', words: 'Recovery code used' },
  { action: 'second_factor.remove', words: 'Second factor removed' },
  { action: 'token.expiring', words: 'Reminder: token expires soon' },
  { action: 'project.create', words: 'Project created' },
  { action: 'project.update', words: 'Project changed' },
  { action: 'project.delete', words: 'Project deleted' },
  { action: 'project.variables', words: 'Variables changed' },
  { action: 'project.regenerate_token', words: 'Deploy token regenerated' },
  { action: 'project.lock', words: 'Project locked' },
  { action: 'project.unlock', words: 'Project unlocked' },
  { action: 'project.maintenance_on', words: 'Maintenance begun' },
  { action: 'project.maintenance_off', words: 'Maintenance ended' },
  { action: 'server.lock', words: 'Server locked' },
  { action: 'server.unlock', words: 'Server unlocked' },
  { action: 'deployment.upload', words: 'Archive pushed' },
  { action: 'deployment.end', words: 'Deployment ended' },
  { action: 'deployment.rollback', words: 'Rollback started' },
  { action: 'deployment.promote', words: 'Release promoted' },
  { action: 'deployment.undo', words: 'Undo started' },
  { action: 'deployment.repair', words: 'Repair started' },
  { action: 'deployment.cancel', words: 'Deployment cancelled' },
  { action: 'deployment.approve', words: 'Deployment approved' },
  { action: 'deployment.reject', words: 'Deployment rejected' },
  { action: 'deployment.confirm', words: 'Deployment confirmed' },
  { action: 'deployment.revert', words: 'Deployment reverted' },
  { action: 'deployment.revert_failed', words: 'Revert failed' },
  { action: 'deployment.mark_status', words: 'Deployment marked' },
  { action: 'deployment.delete_archive', words: 'Archive deleted' },
  { action: 'deployment.give_up', words: 'Target given up' },
  { action: 'deploy.post_deploy_failed', words: 'Post-deploy script failed' },
  { action: 'node.enroll', words: 'Node enrolled' },
  { action: 'node.update', words: 'Node changed' },
  { action: 'node.drain', words: 'Node drained' },
  { action: 'node.undrain', words: 'Node takes part again' },
  { action: 'node.shared', words: 'Two machines use one identity' },
  { action: 'node.single', words: 'One machine uses the identity again' },
  { action: 'node.forget', words: 'Node forgotten' },
  { action: 'enrollment.create', words: 'Enrollment token created' },
  { action: 'enrollment.revoke', words: 'Enrollment token revoked' },
  { action: 'fleet.history', words: 'Nodes told that the database of the hub was set back' },
  { action: 'placement.add', words: 'Project placed on a node' },
  { action: 'placement.remove', words: 'Project removed from a node' },
  { action: 'rollout.start', words: 'Rollout started' },
  { action: 'rollout.halt', words: 'Rollout halted' },
  { action: 'rollout.resume', words: 'Rollout resumed' },
  { action: 'rollout.revert', words: 'Rollout reverted' },
  { action: 'rollout.approve', words: 'Wave approved' },
  { action: 'category.create', words: 'Category created' },
  { action: 'category.update', words: 'Category changed' },
  { action: 'category.delete', words: 'Category deleted' },
  { action: 'tag.create', words: 'Tag created' },
  { action: 'tag.update', words: 'Tag changed' },
  { action: 'tag.delete', words: 'Tag deleted' },
  { action: 'log_source.create', words: 'Log file added' },
  { action: 'log_source.update', words: 'Log file changed' },
  { action: 'log_source.delete', words: 'Log file removed' },
  { action: 'notification_target.create', words: 'Notification target added' },
  { action: 'notification_target.update', words: 'Notification target changed' },
  { action: 'notification_target.delete', words: 'Notification target deleted' },
  { action: 'settings.update', words: 'Setting changed' },
  { action: 'storage.clean', words: 'Storage cleaned up' },
  { action: 'migration.export', words: 'Package exported' },
  { action: 'migration.import', words: 'Package imported' },
  { action: 'backup.create', words: 'Backup created' },
  { action: 'backup.restore', words: 'Started from a restored backup' },
  { action: 'audit.export', words: 'Audit log exported' },
  { action: 'audit.rotate_key', words: 'Key of the audit log replaced' },
  { action: 'cluster.rekey', words: 'Key of the cluster replaced' },
  { action: 'audit.trimmed', words: 'Old entries removed' },
  { action: 'audit.tree_broken', words: 'Audit log damaged' },
  { action: 'webhook.send', words: 'Notification' },
  { action: 'terminal.open', words: 'Terminal opened' },
  { action: 'terminal.close', words: 'Terminal closed' }
]

const wordsOfActions: ReadonlyMap<string, string> = new Map(actionRows.map(({ action, words }) => [action, words]))

/** Returns what was done in words. An action of another version is shown as it is. */
export function actionWords(action: string): string {
  const words = wordsOfActions.get(action)
  return words === undefined ? action : t(words)
}

/** Returns what an entry says before its changes, and the changes with labels and values in words. */
export function detailParts(action: string, detail: string): { subject: string; changes: Change[] } {
  const { subject, changes } = readChanges(detail)
  return {
    subject: subject === '' ? '' : subjectWords(action, subject),
    changes: changes.map(({ field, from, to }) => {
      return { field: changedField(field), from: from === null ? null : valueWords(from), to: valueWords(to) }
    })
  }
}

/** Returns the detail of an audit entry on one line, with the labels of forms, translated except for data. */
export function detailWords(action: string, detail: string): string {
  const { subject, changes } = detailParts(action, detail)
  const parts = changes.map(({ field, from, to }) => `${field}: ${from === null ? '' : `${from} → `}${to}`)
  return [subject, ...parts].filter(part => part !== '').join('; ')
}

/** Returns the label of a changed field, with its place in the record. */
function changedField(field: string): string {
  return field
    .split('.')
    .map(part => t(ownLabels[part] ?? fieldLabels[part] ?? part))
    .join(' › ')
}

/** Returns a value of a change: a time as the reader writes it, and translated if it stands for something. */
function valueWords(value: string): string {
  if (/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value)) return exactWords(value)
  return valueNames.has(value) ? t(value) : value
}

const valueNames: ReadonlySet<string> = new Set([noValue, changedValue, 'true', 'false', 'all', 'success', 'failed'])

/** Labels of fields that forms do not have, or call otherwise. */
const ownLabels: Readonly<Record<string, string>> = {
  expiresAt: 'Valid until',
  allowedIps: 'Addresses',
  role: 'Role',
  commit: 'Commit',
  status: 'Status',
  step: 'Step',
  labels: 'Labels',
  pinned: 'Pinned',
  token: 'Deploy token',
  variables: 'Variables',
  secondFactor: 'Second factor'
}
