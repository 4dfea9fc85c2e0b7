# A message was moved to Junk: report it in the user's name.
require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables"];

if environment :matches "imap.user" "*" { set "user" "${1}"; }
pipe :copy :try "bruit-report" [ "${user}" ];
