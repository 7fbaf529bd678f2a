import type { Words } from '../t.js'

/** Texts of `pages/access.ts`. */
export const words: Words = {
  'the tokens': '令牌',
  'Named tokens': '具名令牌',
  'Create token': '创建令牌',
  'New token': '新令牌',
  'Find tokens': '查找令牌',
  'Name, role or project': '名称、角色或项目',
  'Nothing found': '没有找到',
  'No tokens yet': '还没有令牌',
  'Give each person and each program a token of its own: with the least role that it needs, for its projects only, and with an end.':
    '请为每个人、每个程序各建一个令牌：只给所需的最低角色，只限于其项目，并设定到期时间。',
  'Show more': '显示更多',
  'Built-in tokens': '内置令牌',
  'They never expire, and the audit log does not show who used them. Prefer named tokens.':
    '它们永不到期，审计日志也无法显示使用者是谁。请尽量使用具名令牌。',
  'Grants full access. Change it in the settings.': '拥有全部权限。可在设置中更改。',
  'Global deploy token': '全局部署令牌',
  'Deploys to every project. A setting.': '可部署到所有项目。可在设置中更改。',
  'Deploy tokens of projects': '项目的部署令牌',
  'One for each of {count} projects': '{count} 个项目各一个',

  Name: '名称',
  'A person or a program. The audit log shows it.': '人名或程序名，会显示在审计日志中。',
  Role: '角色',
  'Reads projects, deployments and logs. Changes nothing.': '可查看项目、部署和日志，不能更改任何内容。',
  'Also deploys, and cancels, confirms and reverts the deployments that it started.':
    '还可部署，并可取消、确认、恢复由它发起的部署。',
  'Also rolls back, repairs and locks, decides about every deployment, and reads the files of targets.':
    '还可回滚、修复、锁定，可决定任何部署，并可读取目标目录中的文件。',
  'Everything, including tokens, settings, scripts and the terminal.': '全部权限，包括令牌、设置、脚本和终端。',
  'All projects, and what concerns the whole server': '所有项目，以及涉及整个服务器的内容',
  'Only these projects': '仅限以下项目',
  'An admin cannot be limited to projects: it could give itself the others.':
    '管理员不能限于某些项目：它可以为自己授予其他项目的权限。',
  'Find projects': '查找项目',
  '{count} more. Type a name to find them.': '还有 {count} 个。输入名称即可查找。',
  '{count} of {all} chosen': '已选 {count} / {all}',
  'Choose at least one project.': '请至少选择一个项目。',
  'At most {count}.': '最多 {count} 天。',
  'The days until it expires must be a whole number from 1 to {count}.': '距到期的天数必须是 1 到 {count} 之间的整数。',
  'Addresses or blocks, one on each line. Empty allows all.': '每行一个地址或网段。留空表示不限制。',
  'May read the scripts of its projects': '可读取其项目的脚本',
  'Change {name}': '更改 {name}',
  Saved: '已保存',

  'The secret of {name}': '{name} 的密钥',
  'Copy the secret now. It is not stored, and nobody can show it again.':
    '请立即复制密钥。密钥不会被保存，之后无法再次显示。',
  Done: '完成',

  'Change…': '更改…',
  'Rotate…': '轮换…',
  'Revoke…': '吊销…',
  'Audit entries': '审计记录',
  'Audit entries of {name}': '{name} 的审计记录',
  'from {count}': '限 {count}',
  network: '个网段',
  'reads scripts': '可读脚本',
  'second factor': '双重验证',
  'not used for 90 days': '90 天未使用',
  'old secret': '密钥过旧',
  'Never used': '从未使用',
  'Last used': '最后使用',
  'last used': '最后使用',
  Revoked: '已吊销',
  Expired: '已到期',
  'Expires within a day': '一天内到期',
  'Expires in {days}': '{days}后到期',
  day: '天',
  'Earlier secret valid until': '旧密钥有效期至',
  'not used since the rotation': '轮换后未使用',

  'New secret for {name}?': '为 {name} 生成新密钥？',
  'Role, projects and name stay. The sessions of this token in browsers end.':
    '角色、项目和名称不变。此令牌在浏览器中的会话会结束。',
  'The present secret becomes invalid': '当前密钥失效时间',
  'At once': '立即',
  'After 1 hour': '1 小时后',
  'After 4 hours': '4 小时后',
  'After 1 day': '1 天后',
  'Days until the token expires (optional)': '令牌距到期的天数（可选）',
  'Empty: as long as before.': '留空：与之前的期限相同。',
  'Create new secret': '生成新密钥',

  'Second factor of {name}': '{name} 的双重验证',
  'Remove second factor…': '移除双重验证…',
  'Remove second factor': '移除双重验证',
  'Remove the second factor of {name}?': '移除 {name} 的双重验证？',
  'For a user who lost the authenticator and the recovery codes. Afterwards the token alone is enough to sign in, so make sure that the user asked for this.':
    '用于验证器和恢复码都已丢失的用户。此后仅凭令牌即可登录，请先确认是用户本人要求的。',

  'Revoke {name}?': '吊销 {name}？',
  'The token becomes invalid at once, and its sessions in browsers end. This cannot be undone.':
    '令牌立即失效，其在浏览器中的会话也会结束。此操作无法撤销。',
  Revoke: '吊销',
  'The token was revoked': '令牌已吊销'
}
