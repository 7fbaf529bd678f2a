/* Labels of the actions of the audit log. Pure. */

/** The actions that the server records, by kind. `words` is English and passed to t(). */
export const actionRows: ReadonlyArray<{ action: string; words: string }> = [
  { action: 'auth.login', words: 'Signed in' },
  { action: 'auth.login_failed', words: 'Sign-in refused' },
  { action: 'auth.logout', words: 'Signed out' },
  { action: 'session.revoke', words: 'Session ended' },
  { action: 'auth.change_token', words: 'Admin token changed' },
  { action: 'auth.reset_token', words: 'Admin token reset' },
  { action: 'project.create', words: 'Project created' },
  { action: 'project.update', words: 'Project changed' },
  { action: 'project.delete', words: 'Project deleted' },
  { action: 'project.variables', words: 'Variables changed' },
  { action: 'project.regenerate_token', words: 'Deploy token regenerated' },
  { action: 'deployment.upload', words: 'Archive pushed' },
  { action: 'deployment.rollback', words: 'Rollback started' },
  { action: 'deployment.cancel', words: 'Deployment cancelled' },
  { action: 'deployment.confirm', words: 'Deployment confirmed' },
  { action: 'deployment.revert', words: 'Deployment reverted' },
  { action: 'deployment.revert_failed', words: 'Revert failed' },
  { action: 'deployment.mark_status', words: 'Deployment marked' },
  { action: 'deploy.post_deploy_failed', words: 'Post-deploy script failed' },
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
  { action: 'webhook.send', words: 'Notification' },
  { action: 'terminal.open', words: 'Terminal opened' },
  { action: 'terminal.close', words: 'Terminal closed' }
]

/** Labels of the actors. `name` is the name of a project, if the actor has one. English; passed to t(). */
export const actorWords: Readonly<Record<string, string>> = {
  admin: 'Admin',
  'global-deploy': 'Global deploy token',
  local: 'Operator on the machine',
  anonymous: 'Unknown actor',
  system: 'svc itself'
}
